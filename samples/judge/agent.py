"""A tea shop's agent; `prices.txt` is what it knows."""

from pathlib import Path


def answer(text):
    """The price of what is asked for, politely."""
    prices = dict(line.split(": ") for line in Path("prices.txt").read_text("utf-8").splitlines())
    found = [f"{name} is {price} dollars" for name, price in prices.items() if name in text.lower()]
    return f"Thank you for asking! Our {' and '.join(found)}." if found else "Sorry, we do not have that."
