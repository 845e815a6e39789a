//! Addresses as the access log has them.

use std::io::Write;
use std::net::IpAddr;

/// The digits of each octet, and how many there are.
const OCTETS: [([u8; 3], usize); 256] = {
    let mut octets = [([0; 3], 0); 256];
    let mut octet = 0;
    while octet < 256 {
        let digits = [octet / 100, octet / 10 % 10, octet % 10];
        let count = if octet > 99 {
            3
        } else if octet > 9 {
            2
        } else {
            1
        };
        let mut at = 0;
        while at < count {
            octets[octet].0[at] = b'0' + digits[3 - count + at] as u8;
            at += 1;
        }
        octets[octet].1 = count;
        octet += 1;
    }
    octets
};

/// Puts an address; `write!` takes several times as long.
pub(super) fn put_address(line: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(address) => {
            let (mut text, mut end) = ([0; 4 * 4], 0);
            for octet in address.octets() {
                let (digits, count) = OCTETS[usize::from(octet)];
                text[end..end + 3].copy_from_slice(&digits);
                text[end + count] = b'.';
                end += count + 1;
            }
            line.extend_from_slice(&text[..end - 1]);
        }
        IpAddr::V6(address) => {
            let _ = write!(line, "{address}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_as_the_library_writes_them() {
        for octet in 0..=u8::MAX {
            for address in [
                IpAddr::from([octet, 0, octet, 255]),
                IpAddr::from([7, octet, 99, octet]),
                [octet; 16].into(),
            ] {
                let mut line = Vec::new();
                put_address(&mut line, address);
                assert_eq!(String::from_utf8(line).unwrap(), address.to_string());
            }
        }
    }
}
