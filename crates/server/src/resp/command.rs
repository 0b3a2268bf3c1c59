//! What clients of Redis say: `CL.THROTTLE`, and what they begin and end a connection with.

use std::fmt::Write;

use super::Front;
use super::reply::Reply;
use super::throttle;
use crate::engine::Throttling;

/// Who is at the other end, as far as they have said.
#[derive(Debug, Default)]
pub(super) struct Caller {
    /// A token was shown, where one is needed.
    pub(super) known: bool,
}

/// What became of a command.
pub(super) enum Told<'w> {
    /// It is answered.
    Answered,
    /// A throttle is to be asked.
    Throttle(Throttling<'w>),
    /// It is answered, and was the last.
    Quit,
}

const NEEDS_TOKEN: &str = "NOAUTH Authentication required.";
const WRONG_TOKEN: &str = "WRONGPASS invalid username-password pair or user is disabled.";
/// What an error repeats of a command at most.
const SHOWN: usize = 128;

impl Front {
    /// Answers a command, all but a throttle.
    pub(super) fn answer<'w>(&self, words: &[&'w [u8]], caller: &mut Caller, reply: &mut Reply) -> Told<'w> {
        let Some(name) = words.first() else {
            return Told::Answered;
        };
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        let known = caller.known || self.tokens.is_none();
        if is("CL.THROTTLE") && known {
            match throttle::read(words) {
                Ok(asked) => return Told::Throttle(asked),
                Err(problem) => reply.error(&problem),
            }
        } else if is("QUIT") {
            reply.simple("OK");
            return Told::Quit;
        } else if is("AUTH") {
            self.auth(&words[1..], caller, reply);
        } else if is("HELLO") {
            self.hello(&words[1..], caller, reply);
        } else if known {
            other(words, reply);
        } else {
            reply.error(NEEDS_TOKEN);
        }
        Told::Answered
    }

    fn auth(&self, words: &[&[u8]], caller: &mut Caller, reply: &mut Reply) {
        let ([token] | [_, token]) = words else {
            return reply.error("ERR wrong number of arguments for 'auth' command");
        };
        match &self.tokens {
            None => reply.error(
                "ERR AUTH <password> called without any password configured. Are you sure your configuration is correct?",
            ),
            Some(_) if self.knows(token) => {
                caller.known = true;
                reply.simple("OK");
            }
            Some(_) => reply.error(WRONG_TOKEN),
        }
    }

    fn knows(&self, token: &[u8]) -> bool {
        let tokens = self.tokens.as_ref();
        tokens.is_some_and(|tokens| std::str::from_utf8(token).is_ok_and(|token| tokens.know(token)))
    }

    /// `HELLO [2|3 [AUTH user token] [SETNAME name]]`.
    fn hello(&self, words: &[&[u8]], caller: &mut Caller, reply: &mut Reply) {
        let third = match words.first() {
            None => reply.third,
            Some(&b"2") => false,
            Some(&b"3") => true,
            Some(_) => return reply.error("NOPROTO unsupported protocol version"),
        };
        let mut options = words.get(1..).unwrap_or_default();
        let mut shown = None;
        loop {
            options = match options {
                [] => break,
                [option, _, token, rest @ ..] if option.eq_ignore_ascii_case(b"AUTH") => {
                    shown = Some(*token);
                    rest
                }
                [option, _, rest @ ..] if option.eq_ignore_ascii_case(b"SETNAME") => rest,
                _ => return reply.error("ERR Syntax error in HELLO"),
            };
        }
        if self.tokens.is_some() {
            match shown {
                Some(token) if self.knows(token) => caller.known = true,
                Some(_) => return reply.error(WRONG_TOKEN),
                None if !caller.known => {
                    return reply.error(
                        "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time",
                    );
                }
                None => {}
            }
        }
        reply.third = third;
        reply.map(5);
        for (name, value) in [
            ("server", "tollgate"),
            ("version", env!("CARGO_PKG_VERSION")),
            ("mode", "standalone"),
            ("role", "master"),
        ] {
            reply.bulk(name.as_bytes());
            reply.bulk(value.as_bytes());
        }
        reply.bulk(b"proto");
        reply.integer(if third { 3 } else { 2 });
    }
}

/// What needs nothing but the words.
fn other(words: &[&[u8]], reply: &mut Reply) {
    let name = words[0].to_ascii_uppercase();
    let second = words.get(1).map(|word| word.to_ascii_uppercase());
    match (name.as_slice(), second.as_deref(), words.len()) {
        (b"PING", _, 1) => reply.simple("PONG"),
        (b"PING" | b"ECHO", _, 2) => reply.bulk(words[1]),
        (b"SELECT", Some(b"0"), 2) | (b"CLIENT", Some(b"SETINFO"), 4) | (b"CLIENT", Some(b"SETNAME"), 3) => {
            reply.simple("OK");
        }
        (b"SELECT", _, 2) => reply.error("ERR DB index is out of range"),
        (b"CLIENT", Some(b"ID"), 2) => reply.integer(0),
        (b"COMMAND", Some(b"DOCS"), _) => reply.map(0),
        (b"COMMAND", Some(b"COUNT"), 2) => reply.integer(COMMANDS.len().try_into().unwrap_or(0)),
        (b"COMMAND", None, _) => {
            reply.array(COMMANDS.len());
            for (name, arity, flag, key) in COMMANDS {
                describe(name, arity, flag, key, reply);
            }
        }
        (b"PING" | b"ECHO" | b"SELECT" | b"CLIENT" | b"COMMAND", ..) => {
            let name = String::from_utf8_lossy(words[0]).to_lowercase();
            reply.error(&format!("ERR wrong number of arguments for '{name}' command"));
        }
        _ => unknown(words, reply),
    }
}

/// The commands there are: name, arity, flag, and where the key is.
const COMMANDS: [(&str, i64, &str, i64); 9] = [
    ("cl.throttle", -5, "write", 1),
    ("ping", -1, "fast", 0),
    ("echo", 2, "fast", 0),
    ("hello", -1, "fast", 0),
    ("auth", -2, "fast", 0),
    ("select", 2, "fast", 0),
    ("client", -2, "fast", 0),
    ("command", -1, "fast", 0),
    ("quit", -1, "fast", 0),
];

fn describe(name: &str, arity: i64, flag: &str, key: i64, reply: &mut Reply) {
    reply.array(6);
    reply.bulk(name.as_bytes());
    reply.integer(arity);
    reply.array(1);
    reply.simple(flag);
    for place in [key, key, key.min(1)] {
        reply.integer(place);
    }
}

fn unknown(words: &[&[u8]], reply: &mut Reply) {
    let shown = |word: &[u8]| String::from_utf8_lossy(&word[..word.len().min(SHOWN)]).into_owned();
    let mut arguments = String::new();
    for word in &words[1..] {
        if arguments.len() > SHOWN {
            break;
        }
        let _ = write!(arguments, "'{}' ", shown(word));
    }
    let name = shown(words[0]);
    reply.error(&format!(
        "ERR unknown command '{name}', with args beginning with: {arguments}"
    ));
}
