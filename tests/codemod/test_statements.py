"""Edits of statements: insert, enclose, delete, dedent, in blocks of every shape."""

from __future__ import annotations

import pytest

from distify.codemod.apply import EditError, apply
from distify.codemod.edits import AddImport, Dedent, Delete, Enclose, InsertAfter, InsertBefore, Wrap

from .helpers import Script
from .test_apply import check


def before(script, start, text="new()", nth=0):
    return InsertBefore(script.stmt(start, nth), text, kind="k")


def after(script, start, text="new()", nth=0):
    return InsertAfter(script.stmt(start, nth), text, kind="k")


def enclose(script, first, last, header="with w:", nth=0):
    return Enclose(script.stmt(first, nth), script.stmt(last, nth), header, kind="k")


def test_insert_before_goes_above_the_comment_of_the_statement():
    check(
        """
        def f():
            a()

            # about b
            b()  # end
        """,
        lambda s: [before(s, "b()")],
        """
        def f():
            a()

            new()
            # about b
            b()  # end
        """,
    )


def test_insert_at_the_top_of_a_module_keeps_its_header():
    check(
        """
        #!/usr/bin/env python
        # licence

        # about a
        a()
        """,
        lambda s: [before(s, "a()")],
        """
        #!/usr/bin/env python
        # licence

        new()
        # about a
        a()
        """,
    )


def test_inserts_keep_their_order():
    check(
        "a\n",
        lambda s: [before(s, "a", "n(1)"), before(s, "a", "n(2)"), after(s, "a", "n(3)"), after(s, "a", "n(4)")],
        "n(1)\nn(2)\na\nn(3)\nn(4)\n",
    )


def test_inserted_statements_have_the_indentation_of_the_file():
    source = "if x:\n\tif y:\n\t\ta\n"
    script = Script(source)
    result = apply(source, [after(script, "a", "if z:\n    b\nelse:\n    c")])
    assert result == "if x:\n\tif y:\n\t\ta\n\t\tif z:\n\t\t\tb\n\t\telse:\n\t\t\tc\n"


def test_template_comments_are_kept():
    check("a\nb\n", lambda s: [before(s, "b", "# why\nnew()")], "a\n# why\nnew()\nb\n")


def test_semicolons_are_split_only_where_needed():
    check("a; b; c  # end\nd; e\n", lambda s: [before(s, "b")], "a\nnew()\nb\nc  # end\nd; e\n")


def test_trailing_semicolon():
    check("a; b;\n", lambda s: [after(s, "b")], "a\nb\nnew()\n")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("for x in y: a; b  # c\n", "for x in y:\n    a\n    new()\n    b  # c\n"),
        ("for x in y: b\nelse: d\n", "for x in y:\n    new()\n    b\nelse: d\n"),
        ("if x: a\nelif b: c\n", "if x: a\nelse:\n    new()\n    if b: c\n"),
        ("try: b\nexcept E: a\n", "try:\n    new()\n    b\nexcept E: a\n"),
        ("class A: b\n", "class A:\n    new()\n    b\n"),
        ("with x: b", "with x:\n    new()\n    b"),
    ],
)
def test_one_line_suites(source, expected):
    script = Script(source)
    start = "if b" if "elif" in source else "b"
    spans = [script.stmt("elif b")] if "elif" in source else [script.stmt(start)]
    assert apply(source, [InsertBefore(spans[0], "new()", kind="k")]) == expected


def test_elif_becomes_else_where_something_goes_before_it():
    check(
        """
        if x:
            a
        # about y
        elif y:
            b
        else:
            c
        """,
        lambda s: [before(s, "elif y"), Wrap(s.expr("y"), "f({{ node }})", kind="k")],
        """
        if x:
            a
        # about y
        else:
            new()
            if f(y):
                b
            else:
                c
        """,
    )


def test_untouched_elif_stays():
    check("if x: a\nelif y: b\n", lambda s: [Wrap(s.expr("y"), "f({{ node }})", kind="k")], "if x: a\nelif f(y): b\n")


def test_enclose_moves_comments_with_the_statements():
    check(
        '''
        for x in y:

            # forward
            a = """
          text
            """

            # second
            b(1,
              2)
            # last words
        ''',
        lambda s: [enclose(s, "a", "b")],
        '''
        for x in y:

            # forward
            with w:
                a = """
          text
            """

                # second
                b(1,
                  2)
            # last words
        ''',
    )


def test_enclosures_nest_by_length_then_by_order():
    check(
        "a\nb\nc\nd\n",
        lambda s: [
            enclose(s, "b", "b", "with two:"),
            enclose(s, "b", "b", "with three:"),
            enclose(s, "a", "c", "with one:"),
            enclose(s, "d", "d", "if z:"),
        ],
        "with one:\n    a\n    with two:\n        with three:\n            b\n    c\nif z:\n    d\n",
    )


def test_an_insert_is_inside_of_what_is_listed_before_it():
    check("a\n", lambda s: [enclose(s, "a", "a"), before(s, "a")], "with w:\n    new()\n    a\n")
    check("a\n", lambda s: [before(s, "a"), enclose(s, "a", "a")], "new()\nwith w:\n    a\n")
    check("a\nb\n", lambda s: [before(s, "a"), enclose(s, "a", "b")], "with w:\n    new()\n    a\n    b\n")


def test_enclose_of_a_part_of_a_line():
    check("a; b; c\n", lambda s: [enclose(s, "b", "c")], "a\nwith w:\n    b\n    c\n")


def test_enclosures_must_not_cross():
    script = Script("a\nb\nc\n")
    with pytest.raises(EditError, match="crosses"):
        apply(script.source, [enclose(script, "a", "b"), enclose(script, "b", "c")])


def test_enclose_must_stay_in_its_block():
    script = Script("if x:\n    a\nb\n")
    with pytest.raises(EditError, match="same block"):
        apply(script.source, [enclose(script, "a", "b")])


def test_delete_keeps_comments_above():
    check("a\n\n# note\nb  # own\nc\n", lambda s: [Delete(s.stmt("b"), kind="k")], "a\n\n# note\nc\n")


def test_delete_does_not_add_up_blank_lines():
    check("a\n\nb\n\nc\n", lambda s: [Delete(s.stmt("b"), kind="k")], "a\n\nc\n")


def test_delete_of_the_last_statement_of_a_block():
    check("if x:\n    # why\n    a\nb\n", lambda s: [Delete(s.stmt("a"), kind="k")], "if x:\n    pass\n    # why\nb\n")
    check("if x: a\n", lambda s: [Delete(s.stmt("a"), kind="k")], "if x:\n    pass\n")


def test_delete_and_insert_replace_a_statement():
    expected = "a\n\n# note\nnew()\nc\n"
    check("a\n\n# note\nb\nc\n", lambda s: [Delete(s.stmt("b"), kind="k"), after(s, "b")], expected)
    check("a\n\n# note\nb\nc\n", lambda s: [after(s, "b"), Delete(s.stmt("b"), kind="k")], expected)
    check("a\n\n# note\nb\nc\n", lambda s: [Delete(s.stmt("b"), kind="k"), before(s, "b")], expected)
    check("a\n\n# note\nb\nc\n", lambda s: [before(s, "b"), Delete(s.stmt("b"), kind="k")], expected)


def test_edits_inside_a_deleted_statement_are_no_mistake():
    check("a(b)\nc\n", lambda s: [Delete(s.stmt("a"), kind="k"), Wrap(s.expr("b"), "f({{ node }})", kind="k")], "c\n")


def test_dedent():
    check(
        """
        def f():
            # mixed precision
            with autocast():  # fast
                a(
                  1)

                # second
                b
                # end
            c
        """,
        lambda s: [Dedent(s.stmt("with"), kind="k"), Wrap(s.expr("1"), "f({{ node }})", kind="k")],
        """
        def f():
            # mixed precision
            # fast
            a(
              f(1))

            # second
            b
            # end
            c
        """,
    )


def test_dedent_of_one_line():
    check("with x: a; b\n", lambda s: [Dedent(s.stmt("with"), kind="k")], "a; b\n")


def test_dedent_and_enclose_change_a_header():
    check(
        "with x:\n    a\n    b\n",
        lambda s: [enclose(s, "with", "with", "with y:"), Dedent(s.stmt("with"), kind="k")],
        "with y:\n    a\n    b\n",
    )


def test_dedent_needs_a_body_that_runs_once():
    script = Script("if x:\n    a\nelse:\n    b\n")
    with pytest.raises(EditError, match="Dedent"):
        apply(script.source, [Dedent(script.stmt("if"), kind="k")])


IMPORT = AddImport("from distify import runtime", kind="import")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('"""Doc."""\nx(y)\n', '"""Doc."""\n\nfrom distify import runtime\n\nf(x(y))\n'),
        ("x(y)\n", "from distify import runtime\n\nf(x(y))\n"),
        ("# c\n\n# d\nx(y)\n", "# c\n\nfrom distify import runtime\n\n# d\nf(x(y))\n"),
        (
            "from __future__ import annotations\n\n\ndef g(): x(y)\n",
            "from __future__ import annotations\nfrom distify import runtime\n\n\ndef g(): f(x(y))\n",
        ),
        (
            "import a  # c\nseed()\nimport b; import c\n\nx(y)\nimport d\n",
            "import a  # c\nseed()\nimport b; import c\nfrom distify import runtime\n\nf(x(y))\nimport d\n",
        ),
        (
            "import a\n\ndef g(): pass\n\nimport b\nx(y)\n",
            "import a\nfrom distify import runtime\n\ndef g(): pass\n\nimport b\nf(x(y))\n",
        ),
        (
            "def g(): pass\nimport b\nx(y)\n",
            "def g(): pass\nimport b\nfrom distify import runtime\nf(x(y))\n",
        ),
        ("x(y)\nimport a\n", "from distify import runtime\n\nf(x(y))\nimport a\n"),
    ],
)
def test_import_goes_after_the_imports_above_the_first_use(source, expected):
    script = Script(source)
    assert apply(source, [IMPORT, Wrap(script.expr("x(y)"), "f({{ node }})", kind="k")]) == expected


def test_a_training_step_with_everything():
    check(
        """
        import torch

        def train(model, loader):
            for x, y in loader:
                x, y = x.cuda(), y.cuda()
                opt.zero_grad()
                # forward
                loss = F.cross_entropy(model(x),
                                       y)
                loss.backward(); opt.step()
                print(f"{loss.item():.3f}")
        """,
        lambda s: [
            IMPORT,
            enclose(s, "opt.zero_grad()", "opt.step()", "with runtime.accumulate() as window:"),
            enclose(s, "opt.zero_grad()", "opt.zero_grad()", "if window.starts:"),
            enclose(s, "loss =", "loss =", "with runtime.autocast():"),
            enclose(s, "opt.step()", "opt.step()", "if window.ends:"),
            Wrap(s.expr("model(x)"), "runtime.mean({{ node }})", kind="k"),
        ],
        """
        import torch
        from distify import runtime

        def train(model, loader):
            for x, y in loader:
                x, y = x.cuda(), y.cuda()
                with runtime.accumulate() as window:
                    if window.starts:
                        opt.zero_grad()
                    # forward
                    with runtime.autocast():
                        loss = F.cross_entropy(runtime.mean(model(x)),
                                               y)
                    loss.backward()
                    if window.ends:
                        opt.step()
                print(f"{loss.item():.3f}")
        """,
    )
