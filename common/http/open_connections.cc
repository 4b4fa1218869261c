#include "common/http/open_connections.h"

#include <algorithm>

namespace kintsugi::http {
namespace {

boost::asio::ip::address address_of(const boost::beast::tcp_stream& stream) {
  boost::system::error_code gone;
  return stream.socket().remote_endpoint(gone).address();
}

}  // namespace

OpenConnections::Guard::Guard(OpenConnections& all, boost::beast::tcp_stream& stream) : all_(all) {
  const auto address = address_of(stream);
  all_.make_room(address);
  at_ = all_.connections_.insert(all_.connections_.end(), {.stream = &stream, .address = address});
}

bool OpenConnections::Guard::begin_answer() {
  at_->answering = true;
  all_.connections_.splice(all_.connections_.end(), all_.connections_, at_);
  return !at_->closed;
}

void OpenConnections::Guard::end_answer() {
  at_->answering = false;
  all_.connections_.splice(all_.connections_.end(), all_.connections_, at_);
}

void OpenConnections::make_room(const boost::asio::ip::address& newcomer) {
  size_t open = 0, of_address = 0;
  for (const OpenConnection& connection : connections_) {
    if (connection.closed) continue;
    ++open;
    if (connection.address == newcomer) ++of_address;
  }
  const bool full = open >= kMost;
  if (!full && of_address < kMostOfAnAddress) return;
  const auto may_go = [&](const OpenConnection& connection) {
    return !connection.closed && (full || connection.address == newcomer);
  };
  auto leaving = std::ranges::find_if(connections_, [&](const OpenConnection& connection) {
    return may_go(connection) && !connection.answering;
  });
  if (leaving == connections_.end()) leaving = std::ranges::find_if(connections_, may_go);
  leaving->closed = true;
  leaving->stream->close();
}

void OpenConnections::close_all() {
  for (OpenConnection& connection : connections_) {
    connection.closed = true;
    connection.stream->close();
  }
}

}  // namespace kintsugi::http
