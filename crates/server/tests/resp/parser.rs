//! The parser: what it makes of commands however they are cut, and of anything else.

use proptest::prelude::*;
use tollgate::resp::parse::{Broken, MAX_ARGUMENTS, MAX_BULK, command};

use crate::{Wire, packed, start};

fn words() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let word = proptest::collection::vec(any::<u8>(), 0..40);
    proptest::collection::vec(word, 0..12)
}

fn pack(words: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

proptest! {
    #[test]
    fn a_command_cut_anywhere_is_waited_for_and_then_read(words in words(), after in words()) {
        let mut bytes = pack(&words);
        let whole = bytes.len();
        for cut in 0..whole {
            prop_assert_eq!(command(&bytes[..cut]), Ok(None), "cut at {}", cut);
        }
        bytes.extend(pack(&after));
        let (read, size) = command(&bytes).unwrap().unwrap();
        prop_assert_eq!(size, whole);
        prop_assert_eq!(read.iter().map(|word| word.to_vec()).collect::<Vec<_>>(), words);
    }

    #[test]
    fn a_line_of_words_is_read_when_it_ends(words in proptest::collection::vec("[!#-&()+-~]{1,9}", 1..9)) {
        let line = format!("{}\r\n", words.join("  "));
        for cut in 0..line.len() {
            prop_assert_eq!(command(&line.as_bytes()[..cut]), Ok(None));
        }
        let (read, size) = command(line.as_bytes()).unwrap().unwrap();
        prop_assert_eq!(size, line.len());
        prop_assert_eq!(read.len(), words.len());
    }

    #[test]
    fn whatever_comes_is_a_command_or_the_beginning_of_one_or_broken(bytes in "[*$\r\n0-9a-]{0,40}") {
        if let Ok(Some((_, size))) = command(bytes.as_bytes()) {
            prop_assert!(size > 0 && size <= bytes.len());
            // What it takes up is enough to know it by.
            prop_assert!(matches!(command(&bytes.as_bytes()[..size]), Ok(Some(_))));
        }
    }
}

#[test]
fn what_is_no_command_is_told() {
    for (bytes, broken) in [
        ("*x\r\n", Broken::Count),
        ("*1x\r\n", Broken::Count),
        ("*\r\n", Broken::Count),
        ("*99999999999999999999\r\n", Broken::Count),
        (&format!("*{}\r\n", MAX_ARGUMENTS + 1), Broken::Count),
        ("*1\r\n+PING\r\n", Broken::NoBulk(b'+')),
        ("*1\r\n$-1\r\n", Broken::Length),
        ("*1\r\n$x\r\n", Broken::Length),
        (&format!("*1\r\n${}\r\n", MAX_BULK + 1), Broken::Length),
        ("*1\r\n$4\r\nPINGxx", Broken::NoEnd),
        (&"a".repeat(10_000), Broken::LineTooLong),
        (
            &format!("{}\n", "a ".repeat(MAX_ARGUMENTS + 1)),
            Broken::LineTooLong,
        ),
        ("PING \"a\n", Broken::Quotes),
        ("PING \"a\0\"\n", Broken::Quotes),
        ("PING 'a\n", Broken::Quotes),
        ("PING \"a\"b\n", Broken::Quotes),
        ("PING 'a''b'\n", Broken::Quotes),
        ("PING \"a\\\"\n", Broken::Quotes),
    ] {
        assert_eq!(command(bytes.as_bytes()), Err(broken), "{bytes}");
    }
    let long = format!("${MAX_BULK}\r\n{}\r\n", "a".repeat(MAX_BULK)).repeat(5);
    assert_eq!(command(format!("*5\r\n{long}").as_bytes()), Err(Broken::TooLong));
}

/// As redis-server 7.0 reads these lines.
#[test]
fn the_words_of_a_line_may_be_quoted() {
    for (line, words) in [
        (
            r#"CL.THROTTLE "k k" 15 30 60"#,
            &["CL.THROTTLE", "k k", "15", "30", "60"][..],
        ),
        ("a 'b c' d", &["a", "b c", "d"]),
        (r#"a """#, &["a", ""]),
        ("a '' b", &["a", "", "b"]),
        (r#"a b"c d""#, &["a", "bc d"]),
        ("a b'c d'", &["a", "bc d"]),
        (r#""\x41\n\r\t\b\a\q\"\\""#, &["A\n\r\t\x08\x07q\"\\"]),
        (r#""\xg1""#, &["xg1"]),
        (r#"'\n\'"'"#, &["\\n'\""]),
        ("  a  ", &["a"]),
        ("a\u{b}b\u{c}c \u{b}d", &["a\u{b}b\u{c}c", "d"]),
        ("a\0b c", &["a"]),
        ("", &[]),
    ] {
        let whole = format!("{line}\r\n");
        let (read, size) = command(whole.as_bytes()).unwrap().unwrap();
        assert_eq!(size, whole.len(), "{line}");
        let read: Vec<String> = read
            .iter()
            .map(|word| String::from_utf8(word.to_vec()).unwrap())
            .collect();
        assert_eq!(read, words, "{line}");
    }
}

#[test]
fn a_server_reads_a_quoted_key() {
    let server = start(&[]);
    let mut wire = Wire::to(&server);
    wire.send("CL.THROTTLE \"k k\" 0 1 3600\r\n");
    wire.says("*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:3600\r\n");
    wire.send(packed(&["CL.THROTTLE", "k k", "0", "1", "3600"]));
    wire.says("*5\r\n:1\r\n:1\r\n:0\r\n:3600\r\n:3600\r\n");
}

#[test]
fn a_server_reads_bytes_that_come_one_by_one() {
    let server = start(&[]);
    let mut wire = Wire::to(&server);
    for byte in packed(&["CL.THROTTLE", "user", "0", "1", "3600"]).bytes() {
        wire.send([byte]);
    }
    wire.says("*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:3600\r\n");
    wire.send("PING\r\n\r\n*0\r\n*-1\r\nPING\r\n");
    wire.says("+PONG\r\n+PONG\r\n");
}
