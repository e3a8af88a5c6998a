//! Recorded bytes of each plain call: what clients in the field send is answered as they expect.

use std::io::Write as _;

use capnp::traits::FromPointerReader;
use capnp_rpc::rpc_capnp::{message, return_};

use crate::bed::{Data, Server};
use crate::messages::{Answer, answer_to};
use crate::seed_capnp::seed_queue;

const RECORDED: &str = include_str!("fixtures.txt");

/// The bytes of a recorded message.
fn recorded(name: &str) -> Vec<u8> {
    let section = RECORDED.split(&format!("[{name}]\n")).nth(1).unwrap();
    let words = section.split('[').next().unwrap().split_whitespace();
    let digits: String = words.collect();
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    (0..digits.len()).step_by(2).map(byte).collect()
}

/// The same with real bytes in place of those that stand for them.
fn with(mut bytes: Vec<u8>, first: u8, real: &[u8]) -> Vec<u8> {
    let standing: Vec<u8> = (first..first + 16).collect();
    let at = bytes.windows(16).position(|window| window == standing).unwrap();
    bytes[at..at + 16].copy_from_slice(real);
    bytes
}

/// The answer to a call on a connection of its own.
fn ask(server: &Server, call: &[u8]) -> Answer {
    let mut stream = server.raw();
    stream.write_all(&recorded("bootstrap")).unwrap();
    stream.write_all(call).unwrap();
    answer_to(&mut stream, 1)
}

/// What is in the answer.
fn results<'a, R: FromPointerReader<'a>>(answer: &'a Answer) -> R {
    let message: message::Reader<'a> = answer.get_root().unwrap();
    let message::Return(Ok(returned)) = message.which().unwrap() else { panic!("no answer") };
    match returned.which().unwrap() {
        return_::Results(results) => results.unwrap().get_content().get_as().unwrap(),
        return_::Exception(why) => panic!("{:?}", why.unwrap().get_reason()),
        _ => panic!("neither results nor an exception"),
    }
}

#[test]
fn recorded_calls_are_answered() {
    let data = Data::new("fixtures");
    let server = Server::start(&data.0);
    let answer = ask(&server, &recorded("add"));
    let added: seed_queue::add_results::Reader<'_> = results(&answer);
    let ids = added.get_resp().unwrap().get_ids().unwrap();
    let ids: Vec<&[u8]> = ids.iter().map(Result::unwrap).collect();
    assert_eq!(ids.iter().map(|id| id.len()).collect::<Vec<_>>(), [16, 16]);

    let answer = ask(&server, &recorded("poll"));
    let polled: seed_queue::poll_results::Reader<'_> = results(&answer);
    let polled = polled.get_resp().unwrap();
    let (items, lease) = (polled.get_items().unwrap(), polled.get_lease().unwrap());
    assert_eq!(items.len(), 1, "the second is not visible for three seconds");
    let item = items.get(0);
    assert_eq!((item.get_contents().unwrap(), item.get_id().unwrap()), (&b"one"[..], ids[0]));

    let extended = |lease: &[u8]| {
        let answer = ask(&server, &with(recorded("extend"), 0xb0, lease));
        let extended: seed_queue::extend_results::Reader<'_> = results(&answer);
        extended.get_resp().unwrap().get_extended()
    };
    assert_eq!((extended(lease), extended(&[7; 16])), (true, false));

    let removed = |id: &[u8], lease: &[u8]| {
        let answer = ask(&server, &with(with(recorded("remove"), 0xa0, id), 0xb0, lease));
        let removed: seed_queue::remove_results::Reader<'_> = results(&answer);
        removed.get_resp().unwrap().get_removed()
    };
    assert!(!removed(ids[1], lease), "that lease does not hold it");
    assert!(removed(ids[0], lease));
    assert!(!removed(ids[0], lease));
}
