//! What every driver owes its users, asked of each driver alike.

mod common;
mod moves;
mod sockets;
mod streams;

use engine::driver::blocking::Blocking;
use engine::driver::epoll::Epoll;
use engine::driver::uring::Uring;

use moves::*;
use sockets::*;
use streams::*;

/// Runs each test on a driver.
macro_rules! contract {
    ($driver:ident, $kind:ty: $($test:ident),* $(,)?) => {
        mod $driver {
            $(#[test]
            fn $test() {
                super::$test::<$kind>();
            })*
        }
    };
}

/// What every driver owes.
macro_rules! of_every_driver {
    ($driver:ident, $kind:ty $(, $more:ident)*) => {
        contract! { $driver, $kind:
            bytes_come_and_go, bytes_are_put_behind_what_is_there, a_flood_arrives_whole, the_end_of_the_stream_stays,
            a_receive_times_out_and_loses_nothing, a_send_times_out_and_gives_the_rest_back, a_reset_is_a_departure,
            a_file_is_sent_from_its_offset, a_file_that_ends_early_says_so, a_file_times_out_when_nobody_reads,
            half_a_shutdown_leaves_the_other_half, a_sleep_lasts_as_long_as_it_should,
            a_sleep_takes_no_place_of_a_socket,
            connections_are_accepted_with_their_peer, connecting_works_or_says_why,
            the_table_of_sockets_is_bounded_and_used_again, an_end_of_the_driver_leaves_nothing_open,
            $($more,)*
        }
    };
}

/// And what those owe besides that wait for many sockets at once.
macro_rules! of_event_drivers {
    ($driver:ident, $kind:ty) => {
        of_every_driver! { $driver, $kind, a_cancelled_receive_ends_and_loses_nothing,
            a_dropped_receive_loses_nothing, a_dropped_send_harms_nothing, a_socket_given_up_in_the_middle_is_closed,
            a_socket_that_is_being_closed_takes_no_place,
            another_thread_wakes_the_driver, a_socket_moves_between_drivers_and_loses_nothing, many_sockets_at_once, a_shared_listener_gives_each_connection_once
        }
    };
}

of_every_driver! { blocking, super::Blocking, a_socket_that_cannot_move_stays }
of_event_drivers! { epoll, super::Epoll }
of_event_drivers! { uring, super::Uring }
