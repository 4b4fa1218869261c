#include "common/http/open_connections.h"

#include <algorithm>

namespace kintsugi::http {
namespace {

std::string host_of(const runtime::Connection& connection) {
  const std::string peer = connection.peer();
  return peer.substr(0, peer.rfind(':'));
}

}  // namespace

OpenConnections::Guard::Guard(OpenConnections& all, runtime::Connection& connection) : all_(all) {
  const std::string host = host_of(connection);
  all_.make_room(host);
  at_ = all_.connections_.insert(all_.connections_.end(), {.connection = &connection, .host = host});
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

void OpenConnections::make_room(const std::string& newcomer) {
  size_t open = 0, of_host = 0;
  for (const OpenConnection& connection : connections_) {
    if (connection.closed) continue;
    ++open;
    if (connection.host == newcomer) ++of_host;
  }
  const bool full = open >= kMost;
  if (!full && of_host < kMostOfAnAddress) return;
  const auto may_go = [&](const OpenConnection& connection) {
    return !connection.closed && (full || connection.host == newcomer);
  };
  auto leaving = std::ranges::find_if(connections_, [&](const OpenConnection& connection) {
    return may_go(connection) && !connection.answering;
  });
  if (leaving == connections_.end()) leaving = std::ranges::find_if(connections_, may_go);
  leaving->closed = true;
  leaving->connection->close();
}

void OpenConnections::close_all() {
  for (OpenConnection& connection : connections_) {
    connection.closed = true;
    connection.connection->close();
  }
}

}  // namespace kintsugi::http
