//! Documents: YAML with a place for every node, so that each problem can name line and field.

mod fields;
mod lines;
mod node;
mod problem;
mod yaml;

pub use fields::Fields;
pub use lines::FieldLines;
pub(crate) use lines::path_of;
pub use node::{Node, Value};
pub(crate) use problem::suggestion;
pub use problem::{Problem, Problems};
pub use yaml::parse_yaml;
pub(crate) use yaml::read_yaml;
