//! Routes that are quick, slow, change, and get stuck.

use wire::parse_request;

use super::*;

fn ask(routes: &Routes, path: &str, now: Instant) -> Option<RouteId> {
    let text = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
    let (head, _) = parse_request(text.as_bytes(), &wire::Limits::default()).unwrap().unwrap();
    routes.of(&head, now)
}

fn id(routes: &Routes, path: &str) -> RouteId {
    ask(routes, path, Instant::now()).unwrap()
}

const US: Duration = Duration::from_micros(1);

/// Handlers that take so long, one every millisecond, of which they compute such a share; where the last was handled.
fn run(routes: &Routes, id: RouteId, from: Instant, times: u32, wall: Duration, computing: f64) -> Place {
    for nth in 0..times {
        let now = from + Duration::from_millis(nth.into());
        let computing = routes.is_measured(id).then(|| wall.mul_f64(computing));
        let took = Took { wall, computing, end: now };
        match routes.place(id).unwrap_or(Place::Worker) {
            Place::Reactor => {
                routes.begin(id, now);
                routes.end(id, took);
            }
            Place::Worker => routes.came_home(id, took),
        }
    }
    routes.place(id).unwrap_or(Place::Worker)
}

#[test]
fn what_is_quick_comes_to_the_reactor_and_what_waits_stays_with_the_workers() {
    let start = Instant::now();
    for (wall, computing, place) in [
        (2 * US, 1.0, Place::Reactor),
        (200 * US, 1.0, Place::Reactor),
        (80 * US, 0.1, Place::Worker),
        (500 * US, 1.0, Place::Worker),
        (30_000 * US, 0.0, Place::Worker),
    ] {
        let routes = Routes::default();
        let id = id(&routes, "/x");
        assert_eq!(run(&routes, id, start, 1000, wall, computing), place, "{wall:?} {computing}");
    }
}

#[test]
fn a_route_that_changes_its_nature_is_noticed() {
    let (routes, start) = (Routes::default(), Instant::now());
    let id = id(&routes, "/x");
    let second = Duration::from_secs(1);
    assert_eq!(run(&routes, id, start, 1000, 2 * US, 1.0), Place::Reactor);
    // Two that hold up the reactor are enough, and five dozen that are only a little too slow.
    assert_eq!(run(&routes, id, start + second, 2, 30_000 * US, 0.0), Place::Worker);
    assert_eq!(routes.stalls(), 2);
    assert_eq!(run(&routes, id, start + second * 2, 1000, 2 * US, 1.0), Place::Reactor);
    assert_eq!(run(&routes, id, start + second * 3, 60, 200 * US, 0.0), Place::Worker);
    // It has to prove itself for longer each time.
    assert_eq!(run(&routes, id, start + second * 31 / 10, 600, 2 * US, 1.0), Place::Worker);
    assert_eq!(run(&routes, id, start + second * 37 / 10, 300, 2 * US, 1.0), Place::Reactor);
}

#[test]
fn a_thread_that_loses_its_processor_now_and_then_is_no_reason() {
    let (routes, start) = (Routes::default(), Instant::now());
    let id = id(&routes, "/x");
    run(&routes, id, start, 1000, 2 * US, 1.0);
    for round in 0..50 {
        let start = start + Duration::from_secs(1 + round);
        run(&routes, id, start, 1, 4000 * US, 1.0);
        assert_eq!(run(&routes, id, start, 100, 2 * US, 1.0), Place::Reactor, "{round}");
    }
}

/// So many requests, one after the other, on the reactor for as long as the route is there: one in so many stalls for so long,
/// the others are quick. How many there were.
fn stall(routes: &Routes, id: RouteId, from: Instant, requests: u32, one_in: u32, wall: Duration) -> u32 {
    let mut now = from;
    let on_reactor = |nth: &u32| {
        let wall = if nth.is_multiple_of(one_in) { wall } else { 2 * US };
        now += wall + 8 * US;
        routes.end(id, Took { wall, computing: None, end: now });
        routes.place(id) == Some(Place::Reactor)
    };
    (1..=requests).take_while(on_reactor).count() as u32
}

#[test]
fn stalls_that_take_too_much_of_the_time_are_noticed_however_many_requests_lie_between_them() {
    for (one_in, wall, place) in [
        (20, 30_000 * US, Place::Worker),
        (50, 30_000 * US, Place::Worker),
        (1000, 30_000 * US, Place::Worker),
        (100, 2000 * US, Place::Worker),
        // A twentieth of the time, and less.
        (60_000, 30_000 * US, Place::Reactor),
        (10_000, 4000 * US, Place::Reactor),
    ] {
        let (routes, start) = (Routes::default(), Instant::now());
        let id = id(&routes, "/x");
        run(&routes, id, start, 1000, 2 * US, 1.0);
        let seen = stall(&routes, id, start + Duration::from_secs(2), 10 * one_in, one_in, wall);
        assert_eq!(routes.place(id), Some(place), "{one_in} {wall:?} {seen}");
        assert!(
            place == Place::Reactor || wall == 2000 * US || seen < 2 * one_in,
            "{one_in} {wall:?} {seen}"
        );
    }
}

#[test]
fn a_route_that_stalled_stays_with_the_workers_for_as_long_as_it_would_stall_again() {
    let (routes, start) = (Routes::default(), Instant::now());
    let id = id(&routes, "/x");
    let second = Duration::from_secs(1);
    run(&routes, id, start, 1000, 2 * US, 1.0);
    stall(&routes, id, start + 2 * second, 100, 20, 30_000 * US);
    // On the average that is quick for the workers, who see one stall in 20.
    for round in 3..60 {
        let from = start + round * second;
        for nth in 0..50 {
            run(&routes, id, from + nth * 20_000 * US, 1, 30_000 * US, 0.0);
            run(&routes, id, from + (nth * 20 + 1) * 1000 * US, 19, 2 * US, 1.0);
        }
        assert_eq!(routes.place(id), Some(Place::Worker), "{round}");
    }
    assert_eq!(routes.moves(), (1, 1));
    // It comes back once it has not stalled for a second.
    assert_eq!(run(&routes, id, start + 60 * second, 1200, 2 * US, 1.0), Place::Reactor);
    assert_eq!(routes.moves(), (2, 1));
}

#[test]
fn a_route_that_was_quick_for_long_begins_anew_when_it_relapses() {
    let (routes, start) = (Routes::default(), Instant::now());
    let id = ask(&routes, "/x", start).unwrap();
    let mut now = start;
    let mut go = |wall, times| {
        let place = run(&routes, id, now, times, wall, 1.0);
        now += times * 1000 * US;
        place
    };
    // Each relapse takes twice as long to make up for.
    for times in [250, 450, 850, 1650, 3250] {
        assert_eq!(go(2 * US, times), Place::Reactor);
        assert_eq!(go(4000 * US, 2), Place::Worker);
    }
    assert_eq!(go(2 * US, 3250), Place::Worker);
    assert_eq!(go(2 * US, 3250), Place::Reactor);
    // Five minutes without another.
    go(2 * US, 300_000);
    assert_eq!(go(4000 * US, 2), Place::Worker);
    assert_eq!((go(2 * US, 390), go(2 * US, 60)), (Place::Worker, Place::Reactor));
}

#[test]
fn a_handler_that_does_not_end_is_named_while_it_runs() {
    let (routes, start) = (Routes::default(), Instant::now());
    let id = id(&routes, "/stuck/deep?x");
    run(&routes, id, start, 1000, 2 * US, 1.0);
    let now = start + Duration::from_secs(2);
    routes.begin(id, now);
    assert_eq!(routes.stalled(now + Duration::from_millis(10)), None);
    let Stall { route, held_up, .. } = routes.stalled(now + Duration::from_millis(80)).unwrap();
    assert_eq!((route.as_str(), held_up), ("GET /stuck/*", Duration::from_millis(80)));
    // When it has ended, it goes to the workers, and stays there for longer than after a smaller slip.
    let wall = Duration::from_millis(100);
    let now = now + wall;
    let took = Took { wall, computing: None, end: now };
    routes.end(id, took);
    assert_eq!((routes.place(id), routes.stalled(now)), (Some(Place::Worker), None));
    assert_eq!(run(&routes, id, now, 380, 2 * US, 1.0), Place::Worker);
    assert_eq!(run(&routes, id, now + Duration::from_millis(380), 300, 2 * US, 1.0), Place::Reactor);
}

#[test]
fn what_holds_up_one_reactor_leaves_the_others_before_it_holds_them_up_too() {
    let (first, second, start) = (Routes::default(), Routes::default(), Instant::now());
    let (here, there) = (id(&first, "/x"), id(&second, "/x"));
    for (routes, id) in [(&first, here), (&second, there)] {
        assert_eq!(run(routes, id, start, 1000, 2 * US, 1.0), Place::Reactor);
    }
    let now = start + Duration::from_secs(2);
    first.begin(here, now);
    let later = now + Duration::from_millis(60);
    let Stall { key, .. } = first.stalled(later).unwrap();
    assert!(second.distrust(key, later) && !second.distrust(key, later));
    assert_eq!((second.place(there), second.moves()), (Some(Place::Worker), (1, 1)));
    // It comes back once it has proved itself again.
    assert_eq!(run(&second, there, later, 150, 2 * US, 1.0), Place::Worker);
    assert_eq!(run(&second, there, later + 150_000 * US, 200, 2 * US, 1.0), Place::Reactor);
    // One that had ended before anybody looked is told of too, once.
    let took = Took { wall: Duration::from_secs(1), computing: None, end: now + Duration::from_secs(1) };
    first.end(here, took);
    assert_eq!((first.take_held_up_by(), first.take_held_up_by()), (Some(key), None));
    assert!(!Routes::default().distrust(key, now));
}

#[test]
fn a_slow_answer_says_nothing_about_the_route_that_has_its_slot_by_now() {
    let (routes, start) = (Routes::default(), Instant::now());
    let slow = ask(&routes, "/slow0", start).unwrap();
    // Others ask for so many paths that each slot is taken over.
    let later = start + Duration::from_secs(20);
    for n in 0..10_000 {
        ask(&routes, &format!("/other{n}"), later);
    }
    let counted = |routes: &Routes| routes.known().iter().map(|route| route.requests).sum::<u64>();
    let end = later + Duration::from_secs(1);
    assert!(routes.known().iter().all(|route| route.name != "GET /slow0"));
    routes.came_home(slow, Took { wall: Duration::from_secs(21), computing: None, end });
    assert_eq!(counted(&routes), 0);
}

#[test]
fn a_scan_of_paths_does_not_keep_others_from_being_learned() {
    let (routes, start) = (Routes::default(), Instant::now());
    for n in 0..10_000 {
        ask(&routes, &format!("/scan{n}"), start);
    }
    let later = start + Duration::from_secs(11);
    assert!((0..100).all(|n| ask(&routes, &format!("/page{n}"), later).is_some()));
}

#[test]
fn routes_that_nobody_asks_for_any_more_give_way_however_often_they_were_asked_for() {
    let (routes, start) = (Routes::default(), Instant::now());
    for n in 0..1500 {
        let Some(id) = ask(&routes, &format!("/gone{n}"), start) else { continue };
        run(&routes, id, start, 16, 2 * US, 1.0);
    }
    // One of them still is.
    let kept =
        routes.known().iter().find(|route| route.requests >= 16).map(|route| route.name.clone()).unwrap();
    let kept = kept.strip_prefix("GET ").unwrap();
    ask(&routes, kept, start + Duration::from_secs(10)).unwrap();
    let later = start + Duration::from_secs(11);
    assert!((0..100).all(|n| ask(&routes, &format!("/page{n}"), later).is_some()));
    let known = routes.known();
    assert!(known.iter().any(|route| route.name.ends_with(kept) && route.requests == 16));
}

#[test]
fn routes_are_bounded_and_files_are_told_apart_by_their_kind() {
    let routes = Routes::default();
    assert_eq!(id(&routes, "/a.html"), id(&routes, "/b.html?x=1"));
    assert_ne!(id(&routes, "/a.html"), id(&routes, "/a.css"));
    assert_eq!(id(&routes, "/work?sleep=1ms"), id(&routes, "/work"));
    let mut told_apart = 0;
    for n in 0..10_000 {
        let text = format!("GET /r{n} HTTP/1.1\r\nHost: a\r\n\r\n");
        let (head, _) = parse_request(text.as_bytes(), &wire::Limits::default()).unwrap().unwrap();
        told_apart += usize::from(routes.of(&head, Instant::now()).is_some());
    }
    assert!((100..=SLOTS).contains(&told_apart), "{told_apart}");
    assert!(routes.known().len() <= SLOTS);
}
