"""One test for each way in which a conversion goes wrong; docs/pitfalls.md is the table of them."""
