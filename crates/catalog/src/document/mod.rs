//! Policy files: YAML with a place for every node, so that each problem can name line and field.

mod fields;
mod lines;
mod node;
mod policy_file;
mod problem;
mod yaml;

pub use fields::Fields;
pub use lines::FieldLines;
pub(crate) use lines::path_of;
pub use node::{Node, Value};
pub(crate) use policy_file::LISTS;
pub use policy_file::parse_policy_set;
pub(crate) use problem::suggestion;
pub use problem::{Problem, Problems};
pub use yaml::parse_yaml;
pub(crate) use yaml::read_yaml;
