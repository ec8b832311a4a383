"""Writes of pods that touch a part of the object: the rest of its JSON is copied, not decoded and encoded again.

A pod is written three times before it runs, by our own components, in the same few forms. What is done here comes to
the same bytes as the general way (`writer`), which takes whatever is of another form.
"""
