//! What tests of the load have in common: a server of known behaviour.

#![allow(dead_code, reason = "no test uses all of it")]

use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

/// A server that lets `behave` handle each connection in a thread of its own, until the test ends.
pub(crate) fn server(behave: impl Fn(TcpStream) + Clone + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let behave = behave.clone();
            thread::spawn(move || behave(stream.unwrap()));
        }
    });
    address
}

/// Reads one request; false at the end of the connection.
pub(crate) fn request(stream: &mut TcpStream) -> bool {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            _ => return false,
        }
    }
    true
}
