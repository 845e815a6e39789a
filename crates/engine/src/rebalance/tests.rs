//! Connections that move, without threads: who is told to go where, and who is taken there.

use super::*;

fn exchange(reactors: usize) -> Arc<Exchange> {
    let seats = (0..reactors).map(|_| (Arc::default(), Places::new(100)));
    Arc::new(Exchange::new(seats, Shift::of(reactors)))
}

fn fd() -> OwnedFd {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().into()
}

fn peer() -> SocketAddr {
    ([127, 0, 0, 1], 1).into()
}

/// Takes so many places of a reactor.
fn fill(exchange: &Exchange, reactor: usize, places: usize) -> Vec<Place> {
    (0..places).map(|_| exchange.seats[reactor].places.take(0).unwrap()).collect()
}

/// Where a connection goes.
fn to(passage: Option<(usize, Place)>) -> Option<usize> {
    passage.map(|(to, _)| to)
}

/// Lets connections answer so many requests in each of many looks, the first reactor busy and the others not; who
/// was told to move, and at which look first.
fn follow(exchange: &Arc<Exchange>, movers: &mut [Mover], each: u32) -> (Vec<usize>, u32) {
    let start = Instant::now();
    let mut watch = Watch::new(exchange, start);
    exchange.seats[0].counters.meter.begin(start);
    let (mut went, mut first) = (Vec::new(), 0);
    for look in 1..=4 {
        for mover in movers.iter_mut() {
            for _ in 0..each {
                assert!(!mover.note(mover.answers() + 1) || look > 2, "asked before anything was seen");
            }
        }
        watch.look(start + LOOK * look);
        for (index, mover) in movers.iter_mut().enumerate() {
            if mover.note(mover.answers()) && !went.contains(&index) && to(mover.destination()) == Some(1) {
                went.push(index);
                first = if first == 0 { look } else { first };
            }
        }
    }
    (went, first)
}

#[test]
fn half_of_the_work_is_asked_for_once_it_has_been_seen() {
    let exchange = exchange(2);
    let mut movers: Vec<Mover> = (0..8).map(|_| Mover::new(exchange.clone(), 0, 0)).collect();
    let (went, first) = follow(&exchange, &mut movers, 50);
    assert_eq!((went.len(), first), (4, 2), "{went:?}");
    assert!(!exchange.seats[0].asked.load(Ordering::Relaxed), "and then no more");
}

#[test]
fn who_has_just_come_from_elsewhere_stays() {
    let exchange = exchange(2);
    let mut movers: Vec<Mover> = (0..8).map(|_| Mover::new(exchange.clone(), 0, 1)).collect();
    assert_eq!(follow(&exchange, &mut movers, 50).0, []);
}

#[test]
fn of_a_reactor_that_rests_everybody_goes_to_who_has_the_fewest_and_room() {
    let exchange = exchange(4);
    // All at once, and though they have just come.
    let mut movers: Vec<Mover> = (0..3).map(|_| Mover::new(exchange.clone(), 3, 1)).collect();
    assert!(movers.iter_mut().all(|mover| !mover.note(2)), "not while it works");
    exchange.set_working(2);
    let _some = fill(&exchange, 0, 5);
    assert!(movers.iter_mut().all(|mover| mover.note(3) && to(mover.destination()) == Some(1)));
    assert_eq!((to(exchange.relief(2)), to(exchange.relief(1))), (Some(1), None));
    // Those that are on their way count.
    for _ in 0..5 {
        let passage = movers[0].destination().unwrap();
        movers[0].send(passage, fd(), peer()).unwrap();
    }
    assert_eq!(to(exchange.relief(3)), Some(0));
    // Of the hundred places of each four are kept free.
    let _more = (fill(&exchange, 0, 91), fill(&exchange, 1, 91));
    assert_eq!(
        (to(movers[0].destination()), to(exchange.relief(2))),
        (None, None),
        "they stay where they are"
    );
    exchange.set_working(4);
    assert!(movers.iter_mut().all(|mover| !mover.note(4)), "it works again");
}

#[test]
fn who_rests_gets_no_orders_and_nobody_is_sent_there() {
    let exchange = exchange(3);
    exchange.set_working(2);
    let mut movers: Vec<Mover> = (0..8).map(|_| Mover::new(exchange.clone(), 0, 0)).collect();
    // The third would be as idle as the second.
    let (went, _) = follow(&exchange, &mut movers, 50);
    assert_eq!(went.len(), 4, "{went:?}");
    assert!(exchange.seats[2].asked.load(Ordering::Relaxed), "whatever the looks say");
}

#[test]
fn a_closed_door_gives_the_socket_back() {
    let exchange = exchange(2);
    let mover = Mover::new(exchange.clone(), 0, 3);
    let passage = || (1, exchange.seats[1].take().unwrap());
    assert!(mover.send(passage(), fd(), peer()).is_ok());
    exchange.inbox(1).close();
    assert!(mover.send(passage(), fd(), peer()).is_err());
    assert_eq!(exchange.seats[0].counters.moved_out.load(Ordering::Relaxed), 1);
    assert_eq!(exchange.seats[1].places.taken(), 1, "and the place");
}

#[test]
fn nobody_is_handed_over_to_a_reactor_that_has_filled_up() {
    let exchange = exchange(2);
    let order = Order::of(0, 1, 100.0);
    exchange.give(0, Some(order));
    let mut mover = Mover::new(exchange.clone(), 0, 3);
    mover.rate = 1.0;
    // It filled up after the order was given: there is no way there, and so nobody waits there for a place.
    let all = fill(&exchange, 1, 100);
    assert_eq!(to(mover.destination()), None);
    drop(all);
    // Who has a place keeps it on the way, whoever else comes.
    let passage = mover.destination().unwrap();
    let rest: Vec<Place> = std::iter::from_fn(|| exchange.seats[1].places.take(0)).collect();
    assert_eq!(rest.len(), 99);
    mover.send(passage, fd(), peer()).unwrap();
    assert_eq!(exchange.seats[1].places.taken(), 100);
}
