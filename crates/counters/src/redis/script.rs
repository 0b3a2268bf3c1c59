//! A Lua script, and what it is called with.

use std::io;
use std::sync::OnceLock;

use redis::{Cmd, RedisWrite, ToRedisArgs};

/// A script. Servers know it by the hash of its text, and take the text itself only once.
#[derive(Debug)]
pub struct Script {
    name: &'static str,
    source: &'static str,
    hash: OnceLock<String>,
}

impl Script {
    /// A script with a name for messages.
    pub const fn new(name: &'static str, source: &'static str) -> Self {
        Self {
            name,
            source,
            hash: OnceLock::new(),
        }
    }

    /// Its name.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Its text.
    pub const fn source(&self) -> &'static str {
        self.source
    }

    /// The SHA-1 of its text.
    pub fn hash(&self) -> &str {
        self.hash
            .get_or_init(|| redis::Script::new(self.source).get_hash().to_owned())
    }

    /// The command that calls it.
    pub fn call(&self, parts: &Parts) -> Cmd {
        let mut command = redis::cmd("EVALSHA");
        command.arg(self.hash()).arg(parts.keys.starts.len());
        for part in parts.keys.iter().chain(parts.arguments.iter()) {
            command.arg(part);
        }
        command
    }

    pub(super) fn load(&self) -> Cmd {
        let mut command = redis::cmd("SCRIPT");
        command.arg("LOAD").arg(self.source);
        command
    }
}

/// The keys and arguments of a call.
#[derive(Debug, Default)]
pub struct Parts {
    keys: Flat,
    arguments: Flat,
}

impl Parts {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a key; all keys of a call are in its slot.
    pub fn key(&mut self, key: impl ToRedisArgs) -> &mut Self {
        key.write_redis_args(&mut self.keys);
        self
    }

    /// Adds an argument.
    pub fn arg(&mut self, argument: impl ToRedisArgs) -> &mut Self {
        argument.write_redis_args(&mut self.arguments);
        self
    }
}

/// Byte strings one after the other, without an allocation for each.
#[derive(Debug, Default)]
struct Flat {
    bytes: Vec<u8>,
    /// Where each begins.
    starts: Vec<usize>,
}

impl Flat {
    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let after = self.starts.iter().skip(1).copied().chain([self.bytes.len()]);
        self.starts
            .iter()
            .zip(after)
            .map(|(&from, to)| &self.bytes[from..to])
    }
}

impl RedisWrite for Flat {
    fn write_arg(&mut self, argument: &[u8]) {
        self.starts.push(self.bytes.len());
        self.bytes.extend_from_slice(argument);
    }

    fn writer_for_next_arg(&mut self) -> impl io::Write + '_ {
        self.starts.push(self.bytes.len());
        &mut self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_the_hash_the_number_of_keys_the_keys_and_the_arguments() {
        let script = Script::new("one", "return 1");
        let mut parts = Parts::new();
        parts
            .key("a")
            .key(b"")
            .arg(12)
            .arg("x y")
            .key("b")
            .arg(String::new());
        let packed = script.call(&parts).get_packed_command();
        assert_eq!(
            String::from_utf8(packed).unwrap(),
            "*9\r\n$7\r\nEVALSHA\r\n$40\r\ne0e1f9fabfc9d4800c877a703b823ac0578ff8db\r\n$1\r\n3\r\n\
             $1\r\na\r\n$0\r\n\r\n$1\r\nb\r\n$2\r\n12\r\n$3\r\nx y\r\n$0\r\n\r\n"
        );
    }
}
