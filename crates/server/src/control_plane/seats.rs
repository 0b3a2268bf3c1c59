//! Places for connections to the admin address, of which one peer may hold only a share.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

/// Connections open at once, handshakes included.
const MAX_CONNECTIONS: usize = 256;
/// Connections that one peer may hold of them: an IPv4 address, or an IPv6 network of 64 bits.
const MAX_OF_PEER: usize = 64;

/// The places.
#[derive(Debug, Default)]
pub(super) struct Seats {
    taken: Mutex<HashMap<IpAddr, usize>>,
}

/// A place that is taken until it is dropped.
#[derive(Debug)]
pub(super) struct Seat {
    seats: Arc<Seats>,
    peer: IpAddr,
}

impl Seats {
    /// Takes a place for a peer, unless it holds its share already or none is left.
    pub(super) fn take(self: &Arc<Self>, peer: IpAddr) -> Option<Seat> {
        let peer = network_of(peer);
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        // Never more peers than places, so that this is quickly counted.
        let all: usize = taken.values().sum();
        if all >= MAX_CONNECTIONS || taken.get(&peer).is_some_and(|own| *own >= MAX_OF_PEER) {
            return None;
        }
        *taken.entry(peer).or_default() += 1;
        Some(Seat {
            seats: self.clone(),
            peer,
        })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = taken.get_mut(&self.peer) {
            *own -= 1;
            if *own == 0 {
                taken.remove(&self.peer);
            }
        }
    }
}

/// What counts as one peer: whoever has an IPv6 address has the whole network.
fn network_of(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_peer_has_a_share_and_gets_it_back() {
        let seats = Arc::new(Seats::default());
        let mut held: Vec<Option<Seat>> = (0..MAX_OF_PEER).map(|_| seats.take(peer("192.0.2.1"))).collect();
        assert!(held.iter().all(Option::is_some));
        assert!(seats.take(peer("192.0.2.1")).is_none());
        assert!(seats.take(peer("::ffff:192.0.2.1")).is_none());
        assert!(seats.take(peer("192.0.2.2")).is_some());
        held.pop();
        assert!(seats.take(peer("192.0.2.1")).is_some());
        drop(held);
        assert!(seats.taken.lock().unwrap().is_empty());
    }

    #[test]
    fn all_peers_together_have_no_more_than_there_are() {
        let seats = Arc::new(Seats::default());
        let held: Vec<Seat> = (0..400_u32)
            .filter_map(|number| seats.take(IpAddr::from([10, 0, 0, (number % 200) as u8])))
            .collect();
        assert_eq!(held.len(), MAX_CONNECTIONS);
    }

    #[test]
    fn an_ipv6_network_is_one_peer() {
        assert_eq!(
            network_of(peer("2001:db8::1")),
            network_of(peer("2001:db8::ffff:1"))
        );
        assert_ne!(
            network_of(peer("2001:db8::1")),
            network_of(peer("2001:db8:0:1::1"))
        );
    }
}
