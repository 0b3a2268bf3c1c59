//! The slots of a Redis Cluster: which one a key falls into, and a name for each.

use std::sync::LazyLock;

/// How many a Cluster has.
pub const SLOTS: u16 = 16384;

/// The slot of a hash tag, which is what stands between a key's braces.
pub fn slot_of_tag(tag: &[u8]) -> u16 {
    crc16(tag) % SLOTS
}

/// The slot of a key, by its hash tag if it has one.
pub fn slot_of_key(key: &[u8]) -> u16 {
    let tag = key.iter().position(|&byte| byte == b'{').and_then(|open| {
        let inside = &key[open + 1..];
        let close = inside.iter().position(|&byte| byte == b'}')?;
        (close > 0).then(|| &inside[..close])
    });
    slot_of_tag(tag.unwrap_or(key))
}

/// The least number whose decimal digits are a hash tag of the slot.
pub fn tag_of_slot(slot: u16) -> u32 {
    static TAGS: LazyLock<Vec<u32>> = LazyLock::new(tags);
    TAGS[usize::from(slot % SLOTS)]
}

fn tags() -> Vec<u32> {
    let mut tags: Vec<Option<u32>> = vec![None; usize::from(SLOTS)];
    let mut left = tags.len();
    let mut number = 0;
    while left > 0 {
        let tag = &mut tags[usize::from(slot_of_tag(number.to_string().as_bytes()))];
        if tag.is_none() {
            *tag = Some(number);
            left -= 1;
        }
        number += 1;
    }
    tags.into_iter().flatten().collect()
}

/// CRC-16/XMODEM, as the specification of Redis Cluster has it.
fn crc16(bytes: &[u8]) -> u16 {
    const TABLE: [u16; 256] = table();
    bytes.iter().fold(0, |crc: u16, &byte| {
        let [high, _] = crc.to_be_bytes();
        (crc << 8) ^ TABLE[usize::from(high ^ byte)]
    })
}

const fn table() -> [u16; 256] {
    let mut table = [0_u16; 256];
    let mut index = 0_u16;
    while index < 256 {
        let mut crc = index << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 {
                crc << 1
            } else {
                (crc << 1) ^ 0x1021
            };
            bit += 1;
        }
        table[index as usize] = crc;
        index += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_the_crc_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
    }

    #[test]
    fn a_key_goes_by_its_first_tag_unless_that_is_empty() {
        for (key, tag) in [
            ("{user1000}.following", "user1000"),
            ("foo{}{bar}", "foo{}{bar}"),
            ("foo{{bar}}zap", "{bar"),
            ("foo{bar}{zap}", "bar"),
            ("foo{bar", "foo{bar"),
            ("tg:{7}:x", "7"),
        ] {
            assert_eq!(slot_of_key(key.as_bytes()), slot_of_tag(tag.as_bytes()), "{key}");
        }
    }

    #[test]
    fn every_slot_has_a_short_tag() {
        for slot in 0..SLOTS {
            let tag = tag_of_slot(slot).to_string();
            assert_eq!(slot_of_tag(tag.as_bytes()), slot);
            assert!(tag.len() <= 6, "{tag}");
        }
    }
}
