//! The `tollgate` program.

fn main() -> std::process::ExitCode {
    tollgate::cli::run()
}
