"""Admission: review(request, lookup) gives a defaulted object or rejections."""
