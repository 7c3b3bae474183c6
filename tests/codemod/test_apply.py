"""Edits of single places: each kind, and how they nest."""

from __future__ import annotations

import textwrap

import pytest

from distify.codemod.apply import EditError, apply
from distify.codemod.edits import (
    AddImport,
    Argument,
    Callee,
    Delete,
    InsertBefore,
    Ref,
    Replace,
    Span,
    Wrap,
)

from .helpers import Script

MEAN = "runtime.mean({{ node }})"


def clean(text):
    return textwrap.dedent(text).lstrip("\n")


def check(source, make, expected):
    """Applies the edits that `make(script)` returns."""
    script = Script(clean(source))
    result = apply(script.source, make(script))
    assert result == clean(expected)


def wrap(script, text, template=MEAN, nth=0, **params):
    return Wrap(script.expr(text, nth), template, params, kind="k")


@pytest.mark.parametrize(
    ("source", "text", "expected"),
    [
        ("x = f(a, b)", "f(a, b)", "x = runtime.mean(f(a, b))"),
        ("x = a + b", "a + b", "x = runtime.mean(a + b)"),
        ("x = (a + b).sum()", "a + b", "x = runtime.mean(a + b).sum()"),
        ("x = a, b", "a, b", "x = runtime.mean((a, b))"),
        ("x = (a, b)", "(a, b)", "x = runtime.mean((a, b))"),
        ("for (a, b) in (c, d): pass", "(c, d)", "for (a, b) in runtime.mean((c, d)): pass"),
        ("return_ = [-x]", "-x", "return_ = [runtime.mean(-x)]"),
        ("any(q for q in r)", "(q for q in r)", "any(runtime.mean(q for q in r))"),
        ("any((q for q in r))", "(q for q in r)", "any(runtime.mean((q for q in r)))"),
        ("any( # c\n  q for q in r )", "( # c\n  q for q in r )", "any( # c\n  runtime.mean(q for q in r) )"),
        ("x = y if(a)else b", "a", "x = y if(runtime.mean(a))else b"),
        ("assert(x)", "x", "assert(runtime.mean(x))"),
        ("assert[x]", "[x]", "assert(runtime.mean([x]))"),
        ("x = (a  # one\n     + b)", "a  # one\n     + b", "x = runtime.mean(a  # one\n     + b)"),
        ("x = (  # one\n    a\n    # two\n)", "a", "x = runtime.mean(  # one\n    a\n    # two\n)"),
        ("x = ((a + b))", "a + b", "x = runtime.mean(((a + b)))"),
        ("x = (y := 3)", "y := 3", "x = runtime.mean((y := 3))"),
        ("x = lambda: 3", "lambda: 3", "x = runtime.mean(lambda: 3)"),
        ("@dec(a)\ndef f(x=b): pass", "b", "@dec(a)\ndef f(x=runtime.mean(b)): pass"),
        ("@dec(a)\ndef f(x=b): pass", "a", "@dec(runtime.mean(a))\ndef f(x=b): pass"),
        ("x['é'] = 'ü' + y", "y", "x['é'] = 'ü' + runtime.mean(y)"),
        ('x = """\nä\n""" + y', "y", 'x = """\nä\n""" + runtime.mean(y)'),
        ("with open(a) as b, c: pass", "open(a)", "with runtime.mean(open(a)) as b, c: pass"),
        ("x = a.b[c].d", "a.b[c]", "x = runtime.mean(a.b[c]).d"),
        ("x = a < b < c", "a < b < c", "x = runtime.mean(a < b < c)"),
        ("x = a and b and c", "a and b and c", "x = runtime.mean(a and b and c)"),
        ("f(*a, k=b)", "b", "f(*a, k=runtime.mean(b))"),
        ("f(*a, k=b)", "a", "f(*runtime.mean(a), k=b)"),
        ("x = 'a' 'b'", "'a' 'b'", "x = runtime.mean('a' 'b')"),
        ("x = a \\\n  + b", "a \\\n  + b", "x = runtime.mean(a \\\n  + b)"),
        ("async def f():\n    return await x", "await x", "async def f():\n    return runtime.mean(await x)"),
        ("def f():\n    x = yield y", "yield y", "def f():\n    x = runtime.mean((yield y))"),
        ("print(f'{x:.3f}')", "x", "print(f'{runtime.mean(x):.3f}')"),
        ("print(f'{a} {x.item():>{w}} {x!r}')", "w", "print(f'{a} {x.item():>{runtime.mean(w)}} {x!r}')"),
        ("print('é', f'ü {a}'\n   f'{b} {x}')", "x", "print('é', f'ü {a}'\n   f'{b} {runtime.mean(x)}')"),
        ("match x:\n    case 1: y = z", "z", "match x:\n    case 1: y = runtime.mean(z)"),
    ],
)
def test_wrap(source, text, expected):
    script = Script(source)
    assert apply(source, [wrap(script, text)]) == expected


@pytest.mark.parametrize(
    ("source", "text", "template", "expected"),
    [
        ("x = a + b", "a + b", "{{ node }}.item()", "x = (a + b).item()"),
        ("x = a * b", "a", "{{ node }} + 1", "x = (a + 1) * b"),
        ("x = a", "a", "{{ node }} + 1", "x = a + 1"),
        ("f(a, b)", "a", "{{ node }} if c else d", "f(a if c else d, b)"),
        ("x = 3", "3", "{{ node }}.real", "x = (3).real"),
        ("any(q for q in r)", "(q for q in r)", "f({{ node }}, 1)", "any(f((q for q in r), 1))"),
        ("any(q for q in r)", "(q for q in r)", "f(k={{ node }})", "any(f(k=(q for q in r)))"),
        ("x = (a)", "a", "f(1, {{ node }})", "x = f(1, a)"),
        ("x = (a\n  + b)", "a\n  + b", "[{{ node }}, 1]", "x = [(a\n  + b), 1]"),
        ("f(a\n  + b)", "a\n  + b", "{{ node }} + 1", "f((a\n  + b) + 1)"),
        ("print(f'{x}')", "x", "f({{ node }}, 'k')", "print(f'{f(x, \"k\")}')"),
    ],
)
def test_precedence_is_kept(source, text, template, expected):
    assert apply(source, [wrap(Script(source), text, template)]) == expected


@pytest.mark.parametrize(
    ("source", "text", "expected"),
    [
        ("d = torch.device('cuda')  # gpu\n", "torch.device('cuda')", "d = runtime.device()  # gpu\n"),
        ("d = (torch.device('cuda'))\n", "torch.device('cuda')", "d = runtime.device()\n"),
        ("d = (  # c\n  'cuda')\n", "'cuda'", "d = (  # c\n  runtime.device())\n"),
        ("x.to('cuda' if y else'cpu')\n", "'cuda' if y else'cpu'", "x.to(runtime.device())\n"),
        ("x = 3 if'cuda'else 4\n", "'cuda'", "x = 3 if(runtime.device())else 4\n"),
    ],
)
def test_replace(source, text, expected):
    script = Script(source)
    assert apply(source, [Replace(script.expr(text), "runtime.device()", kind="k")]) == expected


@pytest.mark.parametrize(
    ("source", "call", "prepend", "expected"),
    [
        ("opt.step()", "opt.step()", ("opt",), "runtime.f(opt)"),
        ("f(  # c\n    a,\n    b=1,\n)", "f(  # c\n    a,\n    b=1,\n)", (), "runtime.f(  # c\n    a,\n    b=1,\n)"),
        ("torch.randn(a, b)", "torch.randn(a, b)", ("{{ callee }}",), "runtime.f(torch.randn, a, b)"),
        ("f(q for q in r)", "f(q for q in r)", ("f",), "runtime.f(f, (q for q in r))"),
        ("f(*a)", "f(*a)", ("b",), "runtime.f(b, *a)"),
        ("return_(f)(x)", "return_(f)(x)", (), "runtime.f(x)"),
        ("x = y if(f)(x)else z", "(f)(x)", (), "x = y if(runtime.f(x))else z"),
        ("f(x)", "f(x)", ("a, b",), "runtime.f((a, b), x)"),
    ],
)
def test_callee(source, call, prepend, expected):
    script = Script(source)
    assert apply(source, [Callee(script.expr(call), "runtime.f", prepend=prepend, kind="k")]) == expected


def test_callee_with_reference_to_an_edited_expression():
    source = "(a + loss(x)).backward(retain_graph=True)\n"
    script = Script(source)
    edits = [
        Callee(script.expr(source.strip()), "runtime.backward", prepend=(Ref(script.expr("a + loss(x)")),), kind="k"),
        wrap(script, "loss(x)"),
    ]
    assert apply(source, edits) == "runtime.backward(a + runtime.mean(loss(x)), retain_graph=True)\n"


@pytest.mark.parametrize(
    ("source", "name", "value", "expected"),
    [
        ("f()", "k", "1", "f(k=1)"),
        ("f(a)", "k", "1", "f(a, k=1)"),
        ("f(a, k=2)", "k", "1", "f(a, k=1)"),
        ("f(a, k=2)", "k", None, "f(a)"),
        ("f(k=2, a=3)", "k", None, "f(a=3)"),
        ("f(k=2)", "k", None, "f()"),
        ("f(a)", "k", None, "f(a)"),
        ("f(a,)", "k", "1", "f(a, k=1,)"),
        ("f(**a)", "k", "1", "f(**a, k=1)"),
        ("f(q for q in r)", "k", "1", "f((q for q in r), k=1)"),
        ("f(a, q, k=b)", "k", "c, d", "f(a, q, k=(c, d))"),
        ("f(\n    a,  # first\n    b,  # second\n)", "k", "1", "f(\n    a,  # first\n    b,\n    k=1,  # second\n)"),
        ("f(\n    a,\n    b\n)", "k", "1", "f(\n    a,\n    b,\n    k=1\n)"),
        ("f(\n    a\n)", "k", "1", "f(\n    a,\n    k=1\n)"),
        ("f(\n    a,\n    k=1,\n)", "k", None, "f(\n    a,\n)"),
    ],
)
def test_argument(source, name, value, expected):
    script = Script(source)
    assert apply(source, [Argument(script.expr(source), name, value, kind="k")]) == expected


def test_equal_ranges_nest_in_list_order_and_calls_change_first():
    source = "f(x)\n"
    script = Script(source)
    edits = [
        wrap(script, "f(x)", "outer({{ node }})"),
        Argument(script.expr("f(x)"), "k", "1", kind="k"),
        wrap(script, "f(x)", "inner({{ node }})"),
        Callee(script.expr("f(x)"), "m.g", kind="k"),
    ]
    assert apply(source, edits) == "outer(inner(m.g(x, k=1)))\n"


def test_replace_can_refer_to_what_it_replaces():
    source = "a.b(c)\n"
    script = Script(source)
    params = {"x": Ref(script.expr("a")), "y": Ref(script.expr("a.b(c)"))}
    edits = [
        Replace(script.expr("a.b(c)"), "r({{ x }}, {{ y }})", params, kind="k"),
        wrap(script, "c", "w({{ node }})"),
        wrap(script, "a", "v({{ node }})"),
    ]
    assert apply(source, edits) == "r(v(a), v(a).b(w(c)))\n"


def test_a_reference_to_itself_is_a_mistake():
    source = "f(g(x))\n"
    script = Script(source)
    edit = Wrap(script.expr("g(x)"), "h({{ node }}, {{ of }})", {"of": Ref(script.expr("f(g(x))"))}, kind="k")
    with pytest.raises(EditError, match="refers to itself"):
        apply(source, [edit])


@pytest.mark.parametrize(
    "edit",
    [
        Wrap(Span(1, 0, 1, 3), "f({{ node }})", kind="k"),
        Wrap(Span(9, 0, 9, 3), "f({{ node }})", kind="k"),
        InsertBefore(Span(1, 1, 1, 2), "x", kind="k"),
        Delete(Span(7, 0, 7, 1), kind="k"),
    ],
)
def test_a_span_without_node_is_a_mistake(edit):
    with pytest.raises(EditError, match=r"no (expression|statement) at line"):
        apply("a = b + c\n", [edit])


@pytest.mark.parametrize(
    ("template", "params"),
    [("f({{ missing }})", {}), ("f({{ node }}", {}), ("no_such_template", {}), ("{{ node", {}), ("x = {{ node }}", {})],
)
def test_a_wrong_template_is_a_mistake(template, params):
    script = Script("a = b\n")
    with pytest.raises(EditError, match="template"):
        apply(script.source, [Wrap(script.expr("b"), template, params, kind="k")])


def test_templates_are_sandboxed():
    script = Script("a = b\n")
    with pytest.raises(EditError, match="template"):
        apply(script.source, [Wrap(script.expr("b"), "{{ ''.__class__.__mro__ }}", kind="k")])


def test_add_import_once():
    edits = [AddImport("from distify import runtime", kind="import")] * 2
    assert apply("import torch\n", edits) == "import torch\nfrom distify import runtime\n"
