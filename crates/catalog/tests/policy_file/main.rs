//! Policy files: what is wrong with one is said with line, field and what may have been meant.

#[path = "../common/mod.rs"]
mod common;

mod defaults;
mod fields;
mod lines;
mod numbers;
mod others;
mod references;
mod several;
mod yaml;
