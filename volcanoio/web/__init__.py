"""The web page: what `volcanoio up` and `volcanoio web` serve.

`app` has the routes and what protects them, `viewers` the users and their rights, `feed` the rows of a cluster as they
change, `details` what is read on request, also of the past, `actions` what a user may do. The page itself is in
`static`: ES modules without a build step. Start with `app`.

It may import compose and the layers below it, and is imported by cli alone.
"""
