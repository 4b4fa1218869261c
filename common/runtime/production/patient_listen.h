/// Listening at an address that another process may be about to leave.
#pragma once

#include <chrono>
#include <thread>

#include <boost/asio/ip/tcp.hpp>

namespace kintsugi::runtime {

/// How long an address may be taken before that is an error.
inline constexpr std::chrono::milliseconds kAddressPatience{3000};

/// Binds the open acceptor and listens. While the address is in use it is tried again for kAddressPatience: a process
/// that was killed keeps its sockets until its last disk operation has ended, and the one that follows it is started
/// sooner. Blocks: for the start of a daemon.
inline void listen_patiently(boost::asio::ip::tcp::acceptor& acceptor,
                             const boost::asio::ip::tcp::endpoint& address,
                             boost::system::error_code& error) {
  constexpr std::chrono::milliseconds kPause{50};
  bool bound = false;
  for (std::chrono::milliseconds waited{0};; waited += kPause) {
    if (!bound) acceptor.bind(address, error);
    bound = bound || !error;
    if (bound) acceptor.listen(boost::asio::socket_base::max_listen_connections, error);
    if (error != boost::asio::error::address_in_use || waited >= kAddressPatience) return;
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace kintsugi::runtime
