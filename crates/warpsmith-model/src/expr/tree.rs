//! The tree of a parsed expression.

use crate::Value;

/// One operation or value. Its depth is bounded by the parser, so recursion over it is safe.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    Constant(Value),
    /// An index into the expression's names.
    Name(usize),
    Signed(Sign, Box<Node>),
    Not(Box<Node>),
    And(Vec<Node>),
    Or(Vec<Node>),
    Arithmetic(Arithmetic, Box<[Node; 2]>),
    /// `first op1 second op2 third ...`
    Compare(Box<Node>, Vec<(Comparison, Node)>),
    /// `first links... in items`: a chain of comparisons whose last link asks for membership.
    Member {
        is_negated: bool,
        first: Box<Node>,
        links: Vec<(Comparison, Node)>,
        items: Vec<Node>,
    },
    /// Condition, value if true, value if false.
    If(Box<[Node; 3]>),
    Call(Function, Vec<Node>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    Plus,
    Minus,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    FloorDivide,
    Modulo,
    Power,
}

impl Arithmetic {
    pub(super) fn symbol(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::FloorDivide => "//",
            Self::Modulo => "%",
            Self::Power => "**",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

impl Comparison {
    pub(super) fn symbol(self) -> &'static str {
        match self {
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessEqual => "<=",
            Self::Greater => ">",
            Self::GreaterEqual => ">=",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    Min,
    Max,
    Abs,
    CeilDiv,
    Int,
    Float,
    Round,
    Bool,
}

impl Function {
    pub(super) const ALL: [Self; 8] = [
        Self::Min,
        Self::Max,
        Self::Abs,
        Self::CeilDiv,
        Self::Int,
        Self::Float,
        Self::Round,
        Self::Bool,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Min => "min",
            Self::Max => "max",
            Self::Abs => "abs",
            Self::CeilDiv => "ceil_div",
            Self::Int => "int",
            Self::Float => "float",
            Self::Round => "round",
            Self::Bool => "bool",
        }
    }

    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|function| function.name() == name)
    }

    /// Returns the least and the greatest number of arguments.
    pub(super) fn arity(self) -> (usize, usize) {
        match self {
            Self::Min | Self::Max => (2, usize::MAX),
            Self::CeilDiv => (2, 2),
            Self::Abs | Self::Int | Self::Float | Self::Round | Self::Bool => (1, 1),
        }
    }
}

impl Node {
    /// Replaces every name's index by `position_of[index]`.
    pub(super) fn renumber(&mut self, position_of: &[usize]) {
        match self {
            Self::Constant(_) => {}
            Self::Name(index) => *index = position_of[*index],
            Self::Signed(_, operand) | Self::Not(operand) => operand.renumber(position_of),
            Self::And(nodes) | Self::Or(nodes) | Self::Call(_, nodes) => {
                nodes.iter_mut().for_each(|node| node.renumber(position_of));
            }
            Self::Arithmetic(_, operands) => {
                operands.iter_mut().for_each(|node| node.renumber(position_of));
            }
            Self::If(parts) => parts.iter_mut().for_each(|node| node.renumber(position_of)),
            Self::Compare(first, links) => {
                first.renumber(position_of);
                links.iter_mut().for_each(|(_, node)| node.renumber(position_of));
            }
            Self::Member { first, links, items, .. } => {
                first.renumber(position_of);
                links.iter_mut().for_each(|(_, node)| node.renumber(position_of));
                items.iter_mut().for_each(|node| node.renumber(position_of));
            }
        }
    }
}
