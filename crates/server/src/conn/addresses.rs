//! How many connections each address has, where that is limited.

use std::net::IpAddr;
use std::sync::Arc;

use crate::client::{Client, Clients};

/// How many connections each address has. It has an entry for each address with a connection, and no more.
pub(crate) struct Addresses {
    most: u32,
    counts: Clients<u32>,
}

impl Addresses {
    /// A table for at most so many connections of each address; none where 0 says that there is no limit.
    pub(crate) fn at_most(most: u32) -> Option<Arc<Self>> {
        let table = || Addresses { most, counts: Clients::default() };
        (most > 0).then(|| Arc::new(table()))
    }

    /// Counts a connection for as long as the guard lives; `None` if its address has as many as it may.
    pub(super) fn enter(self: &Arc<Self>, address: IpAddr) -> Option<Entered> {
        let client = Client::of(address);
        let mut part = self.counts.part(client);
        let count = part.entry(client).or_default();
        if *count >= self.most {
            return None;
        }
        *count += 1;
        drop(part);
        Some(Entered { addresses: self.clone(), client, counts: true })
    }

    /// The guard of a connection that is counted already: another one [stays](Entered::stay) for it.
    pub(super) fn entered(self: &Arc<Self>, address: IpAddr) -> Entered {
        Entered { addresses: self.clone(), client: Client::of(address), counts: true }
    }
}

/// A connection that is counted.
pub(super) struct Entered {
    addresses: Arc<Addresses>,
    client: Client,
    /// It gives its place back.
    counts: bool,
}

impl Entered {
    /// Lets the connection stay counted, for a guard that is made elsewhere.
    pub(super) fn stay(mut self) {
        self.counts = false;
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        if !self.counts {
            return;
        }
        let mut part = self.addresses.counts.part(self.client);
        let Some(count) = part.get_mut(&self.client) else { return };
        *count -= 1;
        if *count == 0 {
            part.remove(&self.client);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_has_its_own_count_and_leaves_nothing_behind() {
        let table = Addresses::at_most(2).unwrap();
        let enter = |address: &str| table.enter(address.parse().unwrap());
        let first = enter("10.0.0.1").unwrap();
        let _second = enter("::ffff:10.0.0.1").unwrap();
        assert!(enter("10.0.0.1").is_none());
        let _other = enter("10.0.0.2").unwrap();
        drop(first);
        let first = enter("10.0.0.1").unwrap();
        // One network of IPv6 is one client.
        let _six = (enter("2001:db8::1").unwrap(), enter("2001:db8::ffff:2").unwrap());
        assert!(enter("2001:db8::3").is_none());
        assert!(enter("2001:db8:0:1::1").is_some());
        // One that moves keeps its place while nobody holds it.
        first.stay();
        assert!(enter("10.0.0.1").is_none());
        let first = table.entered("10.0.0.1".parse().unwrap());
        drop((first, _second, _other, _six));
        assert_eq!(table.counts.len(), 0);
        assert!(Addresses::at_most(0).is_none());
    }
}
