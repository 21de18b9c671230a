"""What `make demo` does with the program beside it: plan, edit, run, look and verify.

Nothing in `facts`, `checks` and `watch` uses the product's code: they read the API server with
plain requests and know its objects by the keys that are written on them.
"""
