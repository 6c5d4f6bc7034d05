//! Builds the tree of an expression from its tokens, by precedence climbing.

use super::lexer::{Spot, Token, tokenize};
use super::tree::{Arithmetic, Comparison, Function, Node, Sign};
use super::{ExprError, MAX_DEPTH};
use crate::Value;
use crate::suggest::closest;

/// A parsed text: its tree and the names that [`Node::Name`] indexes, sorted.
#[derive(Debug)]
pub(super) struct Parsed {
    pub(super) root: Node,
    pub(super) names: Vec<String>,
}

/// Parses a whole text.
pub(super) fn parse(text: &str) -> Result<Parsed, ExprError> {
    let mut parser = Parser { tokens: tokenize(text)?, position: 0, depth: 0, names: Vec::new() };
    let Tall { mut node, .. } = parser.expression(TERNARY)?;
    match parser.peek() {
        Token::End => {}
        Token::Comma => return Err(parser.error("a list can only stand after `in`")),
        token => return Err(parser.error(format!("unexpected {}", token.describe()))),
    }
    let mut sorted = parser.names.clone();
    sorted.sort();
    let position_of: Vec<usize> = parser
        .names
        .iter()
        .map(|name| sorted.binary_search(name).expect("sorted holds the same names"))
        .collect();
    node.renumber(&position_of);
    Ok(Parsed { root: node, names: sorted })
}

// How tightly operators bind, from loose to tight, as in Python's grammar.
const TERNARY: u8 = 0;
const OR: u8 = 1;
const AND: u8 = 2;
const NOT: u8 = 3;
const COMPARE: u8 = 4;
const SUM: u8 = 5;
const PRODUCT: u8 = 6;
const UNARY: u8 = 7;

/// A node and its height: evaluation and dropping recurse that deep.
struct Tall {
    node: Node,
    height: usize,
}

struct Parser {
    tokens: Vec<Spot>,
    position: usize,
    depth: usize,
    names: Vec<String>,
}

impl Parser {
    /// Parses operators that bind at least as tightly as `level`.
    fn expression(&mut self, level: u8) -> Result<Tall, ExprError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.too_deep());
        }
        let mut left = self.prefix(level)?;
        loop {
            left = match self.peek() {
                Token::If if level == TERNARY => self.conditional(left)?,
                Token::Or if level <= OR => self.junction(left, OR)?,
                Token::And if level <= AND => self.junction(left, AND)?,
                token if level <= COMPARE && self.starts_comparison(token) => {
                    self.comparison(left)?
                }
                Token::Plus if level <= SUM => self.arithmetic(left, Arithmetic::Add, SUM)?,
                Token::Minus if level <= SUM => self.arithmetic(left, Arithmetic::Subtract, SUM)?,
                Token::Star if level <= PRODUCT => {
                    self.arithmetic(left, Arithmetic::Multiply, PRODUCT)?
                }
                Token::Slash if level <= PRODUCT => {
                    self.arithmetic(left, Arithmetic::Divide, PRODUCT)?
                }
                Token::DoubleSlash if level <= PRODUCT => {
                    self.arithmetic(left, Arithmetic::FloorDivide, PRODUCT)?
                }
                Token::Percent if level <= PRODUCT => {
                    self.arithmetic(left, Arithmetic::Modulo, PRODUCT)?
                }
                // The right side of a power may carry a sign: `2 ** -1`; so it binds like one,
                // which also makes powers associate to the right.
                Token::DoubleStar => self.arithmetic(left, Arithmetic::Power, UNARY - 1)?,
                _ => break,
            };
        }
        self.depth -= 1;
        Ok(left)
    }

    fn prefix(&mut self, level: u8) -> Result<Tall, ExprError> {
        let offset = self.offset();
        match self.take() {
            Token::Not if level <= NOT => {
                let operand = self.expression(NOT)?;
                self.tall(operand.height, Node::Not(Box::new(operand.node)))
            }
            Token::Not => Err(at(offset, "put parentheses around `not ...` here")),
            token @ (Token::Minus | Token::Plus) => {
                let sign = if token == Token::Minus { Sign::Minus } else { Sign::Plus };
                let operand = self.expression(UNARY)?;
                self.tall(operand.height, Node::Signed(sign, Box::new(operand.node)))
            }
            Token::Int(value) => Ok(leaf(Node::Constant(Value::Int(value)))),
            Token::Float(value) => Ok(leaf(Node::Constant(Value::Float(value)))),
            Token::Str(value) => Ok(leaf(Node::Constant(Value::Str(value)))),
            Token::True => Ok(leaf(Node::Constant(Value::Bool(true)))),
            Token::False => Ok(leaf(Node::Constant(Value::Bool(false)))),
            Token::Name(name) if *self.peek() == Token::OpenParen => self.call(&name, offset),
            Token::Name(name) => {
                let known = self.names.iter().position(|seen| *seen == name);
                let index = known.unwrap_or_else(|| {
                    self.names.push(name);
                    self.names.len() - 1
                });
                Ok(leaf(Node::Name(index)))
            }
            Token::OpenParen => {
                let inner = self.expression(TERNARY)?;
                if *self.peek() == Token::Comma {
                    return Err(self.error("a list can only stand after `in`"));
                }
                self.expect(Token::CloseParen, offset)?;
                Ok(inner)
            }
            Token::OpenBracket => Err(at(offset, "a list can only stand after `in`")),
            Token::End if offset == 0 => Err(at(0, "the expression is empty")),
            token => Err(at(offset, format!("expected a value, got {}", token.describe()))),
        }
    }

    fn conditional(&mut self, then: Tall) -> Result<Tall, ExprError> {
        let offset = self.offset();
        self.take();
        let condition = self.expression(OR)?;
        if *self.peek() != Token::Else {
            return Err(at(offset, "this `if` has no `else`"));
        }
        self.take();
        let otherwise = self.expression(TERNARY)?;
        let height = then.height.max(condition.height).max(otherwise.height);
        self.tall(height, Node::If(Box::new([condition.node, then.node, otherwise.node])))
    }

    /// Collects a whole chain of `and` or of `or` into one node, so that long chains stay flat.
    fn junction(&mut self, first: Tall, level: u8) -> Result<Tall, ExprError> {
        let operator = self.peek().clone();
        let mut height = first.height;
        let mut operands = vec![first.node];
        while *self.peek() == operator {
            self.take();
            let operand = self.expression(level + 1)?;
            height = height.max(operand.height);
            operands.push(operand.node);
        }
        let node = if level == AND { Node::And(operands) } else { Node::Or(operands) };
        self.tall(height, node)
    }

    fn arithmetic(
        &mut self,
        left: Tall,
        operator: Arithmetic,
        level: u8,
    ) -> Result<Tall, ExprError> {
        self.take();
        let right = self.expression(level + 1)?;
        let height = left.height.max(right.height);
        self.tall(height, Node::Arithmetic(operator, Box::new([left.node, right.node])))
    }

    fn starts_comparison(&self, token: &Token) -> bool {
        match token {
            Token::Not => self.tokens[self.position + 1].token == Token::In,
            Token::In
            | Token::Equal
            | Token::NotEqual
            | Token::Less
            | Token::LessEqual
            | Token::Greater
            | Token::GreaterEqual => true,
            _ => false,
        }
    }

    /// Collects a chain of comparisons, `a < b <= c in [...]`.
    fn comparison(&mut self, first: Tall) -> Result<Tall, ExprError> {
        let mut height = first.height;
        let mut links = Vec::new();
        while self.starts_comparison(self.peek()) {
            let comparison = match self.take() {
                Token::Equal => Comparison::Equal,
                Token::NotEqual => Comparison::NotEqual,
                Token::Less => Comparison::Less,
                Token::LessEqual => Comparison::LessEqual,
                Token::Greater => Comparison::Greater,
                Token::GreaterEqual => Comparison::GreaterEqual,
                operator => {
                    let is_negated = operator == Token::Not;
                    if is_negated {
                        self.take();
                    }
                    let (items, tallest) = self.list()?;
                    let node =
                        Node::Member { is_negated, links, first: Box::new(first.node), items };
                    if self.starts_comparison(self.peek()) {
                        return Err(self.error("a list cannot be compared"));
                    }
                    return self.tall(height.max(tallest), node);
                }
            };
            let right = self.expression(COMPARE + 1)?;
            height = height.max(right.height);
            links.push((comparison, right.node));
        }
        self.tall(height, Node::Compare(Box::new(first.node), links))
    }

    /// Parses the literal list or tuple after `in`.
    fn list(&mut self) -> Result<(Vec<Node>, usize), ExprError> {
        let offset = self.offset();
        let closing = match self.take() {
            Token::OpenBracket => Token::CloseBracket,
            Token::OpenParen => Token::CloseParen,
            _ => return Err(at(offset, "`in` needs a literal list, such as `[1, 2, 4]`")),
        };
        let mut items = Vec::new();
        let mut tallest = 0;
        let mut has_comma = false;
        while *self.peek() != closing {
            let item = self.expression(TERNARY)?;
            tallest = tallest.max(item.height);
            items.push(item.node);
            if *self.peek() != Token::Comma {
                break;
            }
            has_comma = true;
            self.take();
        }
        let is_tuple = closing == Token::CloseParen;
        self.expect(closing, offset)?;
        if is_tuple && items.len() == 1 && !has_comma {
            return Err(at(offset, "parentheses around one value make no list; write `[...]`"));
        }
        Ok((items, tallest))
    }

    fn call(&mut self, name: &str, offset: usize) -> Result<Tall, ExprError> {
        let Some(function) = Function::from_name(name) else {
            let names = Function::ALL.map(Function::name);
            let hint = match closest(name, names) {
                Some(known) => format!("; did you mean `{known}`?"),
                None => format!("; there are {}", names.join(", ")),
            };
            return Err(at(offset, format!("unknown function `{name}`{hint}")));
        };
        let open = self.offset();
        self.take();
        let mut arguments = Vec::new();
        let mut tallest = 0;
        while *self.peek() != Token::CloseParen {
            let argument = self.expression(TERNARY)?;
            tallest = tallest.max(argument.height);
            arguments.push(argument.node);
            if *self.peek() != Token::Comma {
                break;
            }
            self.take();
        }
        self.expect(Token::CloseParen, open)?;
        let (least, most) = function.arity();
        if arguments.len() < least || arguments.len() > most {
            let wanted = match (least, most) {
                (least, usize::MAX) => format!("at least {least} arguments"),
                (1, _) => "1 argument".to_string(),
                (least, _) => format!("{least} arguments"),
            };
            let message = format!("`{name}` takes {wanted}, not {}", arguments.len());
            return Err(at(offset, message));
        }
        self.tall(tallest, Node::Call(function, arguments))
    }

    fn tall(&self, height_below: usize, node: Node) -> Result<Tall, ExprError> {
        if height_below + 1 > MAX_DEPTH {
            return Err(self.too_deep());
        }
        Ok(Tall { node, height: height_below + 1 })
    }

    fn peek(&self) -> &Token {
        &self.tokens[self.position].token
    }

    /// Returns the current token and steps past it; the end is never passed.
    fn take(&mut self) -> Token {
        let token = self.peek().clone();
        if token != Token::End {
            self.position += 1;
        }
        token
    }

    fn offset(&self) -> usize {
        self.tokens[self.position].offset
    }

    fn expect(&mut self, wanted: Token, opened_at: usize) -> Result<(), ExprError> {
        match self.peek() {
            token if *token == wanted => {
                self.take();
                Ok(())
            }
            Token::End => Err(at(opened_at, format!("this needs a {}", wanted.describe()))),
            token => {
                let message = format!("expected {}, got {}", wanted.describe(), token.describe());
                Err(self.error(message))
            }
        }
    }

    fn error(&self, message: impl Into<String>) -> ExprError {
        at(self.offset(), message)
    }

    fn too_deep(&self) -> ExprError {
        self.error(format!("the expression is nested more than {MAX_DEPTH} levels deep"))
    }
}

fn leaf(node: Node) -> Tall {
    Tall { node, height: 1 }
}

fn at(offset: usize, message: impl Into<String>) -> ExprError {
    ExprError { message: message.into(), offset }
}
