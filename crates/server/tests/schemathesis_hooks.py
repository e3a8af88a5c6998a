"""What is changed about the requests that schemathesis makes, before they are sent.

A number with a fraction is not taken for an integer, even if the fraction is zero. JSON Schema
knows one kind of number, in which 5.0 is an integer. Windrow reads integers as most programs
write them; so what is generated is written that way.

A claim may wait for a minute, and does when nothing comes. So long a wait is allowed and shows
nothing more than a short one, so it is made short.
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


WAIT_MAX_MS = 60_000
SHORT_WAIT_MS = 100


@schemathesis.hook
def before_call(context, case, kwargs):
    body = case.body
    if isinstance(body, dict) and type(wait := body.get("wait_ms")) is int:
        if SHORT_WAIT_MS < wait <= WAIT_MAX_MS:
            body["wait_ms"] = SHORT_WAIT_MS
