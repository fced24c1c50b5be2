"""The grammar: one row for each kind of syntax node, with the fields its reading uses."""

from __future__ import annotations

import ast

from iron.front import calls, expressions, loops, names, statements
from iron.front.state import Grammar, Handler, Rule
from iron.front.vocabulary import METHODS, functions


def _rule(handler: Handler, fields: str = "") -> Rule:
    return Rule(handler, frozenset(fields.split()) | {"ctx"})


STATEMENTS: dict[type[ast.AST], Rule] = {
    ast.Pass: _rule(statements.read_pass),
    ast.Expr: _rule(statements.read_expression, "value"),
    ast.Assign: _rule(statements.read_assign, "targets value"),
    ast.AugAssign: _rule(statements.read_augmented, "target op value"),
    ast.If: _rule(statements.read_if, "test body orelse"),
    ast.For: _rule(loops.read_for, "target iter body"),
    ast.Return: _rule(statements.read_return, "value"),
    ast.Break: _rule(loops.never),
}

EXPRESSIONS: dict[type[ast.AST], Rule] = {
    ast.Constant: _rule(expressions.read_constant, "value kind"),
    ast.Name: _rule(names.read_name, "id"),
    ast.Tuple: _rule(expressions.read_tuple, "elts"),
    ast.List: _rule(expressions.read_list, "elts"),
    ast.ListComp: _rule(expressions.read_comprehension, "elt generators"),
    ast.GeneratorExp: _rule(expressions.read_comprehension, "elt generators"),
    ast.JoinedStr: _rule(expressions.read_joined, "values"),
    ast.FormattedValue: _rule(expressions.read_formatted, "value conversion format_spec"),
    ast.Lambda: _rule(expressions.read_lambda, "args body"),
    ast.BinOp: _rule(expressions.read_binary, "left op right"),
    ast.UnaryOp: _rule(expressions.read_unary, "op operand"),
    ast.BoolOp: _rule(expressions.read_boolean, "op values"),
    ast.Compare: _rule(expressions.read_compare, "left ops comparators"),
    ast.IfExp: _rule(expressions.read_choice, "test body orelse"),
    ast.Attribute: _rule(expressions.read_attribute, "value attr"),
    ast.Subscript: _rule(expressions.read_subscript, "value slice"),
    ast.Slice: _rule(expressions.read_slice, "lower upper step"),
    ast.Call: _rule(calls.read_call, "func args keywords"),
}

GRAMMAR = Grammar(EXPRESSIONS, STATEMENTS, functions(), METHODS)
