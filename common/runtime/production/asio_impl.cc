// Asio's non-template code, compiled once for the whole project (BOOST_ASIO_SEPARATE_COMPILATION).
#include <sys/epoll.h>

#include "common/runtime/production/loop_turns.h"

// Where a loop looks for events one turn of it ends and the next one begins: Asio has no hook there.
#define epoll_wait ::kintsugi::runtime::LoopTurns::wait_for_events
#include <boost/asio/impl/src.hpp>
// This source is compiled in a batch with others.
#undef epoll_wait
