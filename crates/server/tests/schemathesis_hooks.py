"""A number with a fraction is not taken for an integer, even if the fraction is zero.

JSON Schema knows one kind of number, in which 5.0 is an integer. Windrow reads integers as most
programs write them; so what is generated is written that way before it is sent.
"""

import schemathesis


def written(value):
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [written(entry) for entry in value]
    if isinstance(value, dict):
        return {name: written(entry) for name, entry in value.items()}
    return value


@schemathesis.hook
def map_body(context, body):
    return written(body)
