#include "monitoring/daemon/actions.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include <fmt/format.h>

#include "common/daemon/page_tokens.h"
#include "common/log/audit_log.h"
#include "common/rpc/token.h"

namespace kintsugi::monitoring {
namespace {

using rpc::Method;
using Request = std::unique_ptr<google::protobuf::MessageLite>;

constexpr std::string_view kPath = "/api/v1/actions/";

Request drain_request(uint64_t server_id, bool drain) {
  auto request = std::make_unique<proto::DrainServerRequest>();
  request->set_server_id(server_id);
  request->set_drain(drain);
  return request;
}

Request drain(uint64_t server_id) {
  return drain_request(server_id, true);
}

Request undrain(uint64_t server_id) {
  return drain_request(server_id, false);
}

Request remove(uint64_t server_id) {
  auto request = std::make_unique<proto::RemoveServerRequest>();
  request->set_server_id(server_id);
  return request;
}

/// The number in "server=5".
std::optional<uint64_t> server_of(std::string_view query) {
  constexpr std::string_view kKey = "server=";
  if (!query.starts_with(kKey)) return std::nullopt;
  query.remove_prefix(kKey.size());
  uint64_t id = 0;
  const auto [end, error] = std::from_chars(query.data(), query.data() + query.size(), id);
  if (error != std::errc() || end != query.data() + query.size()) return std::nullopt;
  return id;
}

int http_status(Code code) {
  switch (code) {
    case Code::kOk: return 200;
    case Code::kPermissionDenied: return 403;
    case Code::kNotFound: return 404;
    case Code::kConflict: return 409;
    case Code::kUnavailable:
    case Code::kDeadlineExceeded: return 503;
    default: return 500;
  }
}

http::Response line(int status, const std::string& text) {
  return {.status = status, .body = text + "\n"};
}

}  // namespace

struct Actions::Row {
  std::string_view name;
  Method method;
  Request (*request)(uint64_t server_id);
  std::string_view done;  ///< what follows the server's name
};

const Actions::Row Actions::kRows[] = {
    {"drain", Method::kDrainServer, &drain,
     "gets no new chunks, and its chunks are moved to other servers; they can be read meanwhile."},
    {"undrain", Method::kDrainServer, &undrain,
     "takes new chunks again; what was moved away stays where it is."},
    {"remove", Method::kRemoveServer, &remove, "is forgotten; its daemon may be stopped now."},
};

Actions::Actions(const runtime::Runtime& runtime, const Monitor& monitor, rpc::Secret cluster)
    : runtime_(runtime), monitor_(monitor), cluster_(std::move(cluster)), ended_(runtime) {}

void Actions::add_to(http::HttpServer& http) {
  for (const Row& row : kRows)
    http.change_by(fmt::format("{}{}", kPath, row.name), *this);
}

asio::awaitable<void> Actions::stop() {
  while (running_ > 0)
    co_await ended_.wait();
}

asio::awaitable<http::Response> Actions::change(http::Change change) {
  const auto row = std::ranges::find(kRows, std::string_view(change.path).substr(kPath.size()), &Row::name);
  KINTSUGI_ASSERT(row != std::end(kRows));
  if (running_ >= kMost) co_return line(429, fmt::format("{} actions run already: ask again", kMost));
  ++running_;
  http::Response response = co_await decide(*row, change);
  --running_;
  ended_.notify_all();
  co_return response;
}

asio::awaitable<http::Response> Actions::decide(const Row& row, const http::Change& change) {
  const std::string token = daemon::bearer_token_of(change.authorization).value_or("");
  if (token.empty())
    co_return line(401,
                   "this changes the cluster, and needs a token of the role admin: send Authorization: "
                   "Bearer TOKEN (kintsugi token create NAME --role admin makes one)");
  const auto holder = daemon::reader_of(cluster_, token);
  if (!holder) co_return line(401, holder.error().message());
  const auto server_id = server_of(change.query);
  if (!server_id)
    co_return line(400, "which server? Ask for server=ID, where ID is server_id in /api/v1/servers");
  const std::string server = name_of(*server_id);
  const Status outcome = co_await ask_metaserver(row, *server_id, token);
  tell_audit(fmt::format("token {} ({:016x}) from {}", holder->name, holder->id, change.peer),
             fmt::format("{} server {} by the console", row.name, server), outcome);
  if (outcome.ok()) co_return line(200, fmt::format("Server {} {}", server, row.done));
  const int status = http_status(outcome.code());
  if (status != 503) co_return line(status, outcome.message());
  co_return line(status,
                 fmt::format("the metaserver does not answer: {}; look when it is back", outcome.message()));
}

asio::awaitable<Status> Actions::ask_metaserver(const Row& row, uint64_t server_id,
                                                const std::string& token) const {
  KINTSUGI_CO_ASSIGN(const rpc::Secret credential, rpc::parse_token(token));
  // A connection of its own, which ends with the action: it is the token's, and nobody else's request may go over it.
  rpc::Client client(runtime_, credential);
  const Request request = row.request(server_id);
  proto::Empty response;
  const Context context = Context{}.with_deadline(runtime_.clock.now() + kLimit);
  const Status outcome =
      co_await client.call(context, monitor_.watch().metaserver(), row.method, *request, response);
  co_await client.stop();
  co_return outcome;
}

void Actions::tell_audit(const std::string& who, const std::string& what, const Status& outcome) {
  size_t left_out = 0;
  // A token that may do nothing fails in other ways, too: while the metaserver is away nobody knows what it may.
  if (!outcome.ok()) {
    const auto allowed = failures_.allow(runtime_.clock.now());
    if (!allowed) return;
    left_out = *allowed;
  }
  log::audit(fmt::format("{}: {}: {}{}", who, what,
                         outcome.ok() ? "done" : "refused or failed: " + outcome.message(),
                         left_out == 0 ? "" : fmt::format(" ({} more failures were not told)", left_out)));
}

std::string Actions::name_of(uint64_t server_id) const {
  for (const proto::ServerState& server : monitor_.watch().servers().servers())
    if (server.server_id() == server_id) return server.name();
  return std::to_string(server_id);
}

}  // namespace kintsugi::monitoring
