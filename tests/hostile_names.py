"""Names that break careless writers and readers of files."""

HOSTILE = [
    "a b",
    "quote\"'",
    "<joint/>",
    "&amp;",
    "]]>",
    "-->",
    "line\nbreak",
    "tab\tand\rreturn",
    "ünïcödé 関節 🦾",
    " padded ",
    "q1",
    "joint.1/[x]=#;",
    "__class__",
    "%s{0}",
]
