"""Tasks whose arguments are not for everybody's eyes, and which tell them all the same when they fail."""

from __future__ import annotations

from django_vtasks import Concurrency, Rate, Unique, task


@task(redact=["iban"])
def transfer(amount, iban):
    """Tell both arguments in an exception."""
    raise ValueError(f"cannot move {amount} to {iban!r}")


@task()
async def sign_in(user, password=None):
    """Tell both in an exception."""
    raise LookupError(f"{user}:{password}")


@task()
def together(members):
    """Tell the arguments of all members."""
    raise ValueError(" ".join(member["kwargs"]["password"] for member in members))


@task(redact=["iban"])
def chained(amount, iban):
    """Tell an argument in what led to the exception, and in a note."""
    try:
        raise KeyError(iban)
    except KeyError as error:
        error.add_note(f"account {iban}")
        raise ValueError("no such account") from error


@task(redact=["iban"])
def harmless(amount, iban):
    """Tell nothing."""
    return amount / 0


@task(
    redact=["iban"],
    unique=Unique.until_done(key="move:{iban}:{amount}"),
    limit=Concurrency(1, key="account:{iban}"),
    rate=Rate(1, per=60, key="rate:{iban}"),
)
def keyed(amount, iban):
    """Have keys that are made from a hidden argument."""


@task(redact=["iban"], takes_context=True)
def talkative(context, amount, iban):
    """Tell an argument in progress, metadata and return value."""
    context.metadata["about"] = {"account": f"<{iban}>"}
    context.progress(1, 2, message=f"moving to {iban}")
    return [f"moved {amount} to {iban}"]
