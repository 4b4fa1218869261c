#include "common/runtime/production/tcp_listener.h"

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "common/log/log.h"
#include "common/runtime/production/tcp_connection.h"

namespace kintsugi::runtime {

namespace {

using asio::ip::tcp;
using boost::system::error_code;

/// When the kernel has no descriptor or memory for a new connection, asking again at once would only burn CPU.
constexpr Duration kPauseAfterFailure = 100ms;

/// The peer gave up before we took the connection: nothing is wrong here.
bool is_peers_fault(const error_code& error) {
  return error == asio::error::connection_aborted || error == asio::error::connection_reset ||
         error.value() == EPROTO;
}

Endpoint endpoint_of(const tcp::acceptor& acceptor) {
  error_code ignored;
  tcp::endpoint local = acceptor.local_endpoint(ignored);
  return {local.address().to_string(), local.port()};
}

}  // namespace

TcpListener::TcpListener(tcp::acceptor acceptor, Clock& clock, std::shared_ptr<TcpLosses> losses)
    : acceptor_(std::move(acceptor)),
      clock_(clock),
      losses_(std::move(losses)),
      local_(endpoint_of(acceptor_)),
      closed_(acceptor_.get_executor(), clock) {}

asio::awaitable<Result<std::unique_ptr<Connection>>> TcpListener::accept() {
  while (acceptor_.is_open()) {
    error_code error;
    tcp::socket socket = co_await acceptor_.async_accept(asio::redirect_error(asio::use_awaitable, error));
    if (!error) {
      warned_ = false;
      error_code gone;  // the first read says so
      const tcp::endpoint caller = socket.remote_endpoint(gone);
      co_return std::make_unique<TcpConnection>(std::move(socket), losses_, caller.address().to_string());
    }
    if (!acceptor_.is_open()) break;
    if (is_peers_fault(error)) continue;
    if (!warned_)
      log::warning("accept on {} fails, will keep trying: {}", local_.to_string(), error.message());
    warned_ = true;
    co_await closed_.wait_until(clock_.now() + kPauseAfterFailure);
  }
  co_return Status{Code::kCancelled, fmt::format("listener on {} closed", local_.to_string())};
}

void TcpListener::close() {
  error_code ignored;
  acceptor_.close(ignored);
  closed_.notify_all();
}

}  // namespace kintsugi::runtime
