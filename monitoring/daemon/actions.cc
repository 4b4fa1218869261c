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

}  // namespace

/// What a query names, of which each action takes what its row says.
struct Actions::Query {
  uint64_t server_id = 0, seconds = 0, rate = 0;
};

namespace {

using Query = Actions::Query;

Request drain_request(uint64_t server_id, bool drain) {
  auto request = std::make_unique<proto::DrainServerRequest>();
  request->set_server_id(server_id);
  request->set_drain(drain);
  return request;
}

Request drain(const Query& query) {
  return drain_request(query.server_id, true);
}

Request undrain(const Query& query) {
  return drain_request(query.server_id, false);
}

/// Without seconds it ends the maintenance.
Request maintain(const Query& query) {
  auto request = std::make_unique<proto::MaintainServerRequest>();
  request->set_server_id(query.server_id);
  request->set_seconds(query.seconds);
  return request;
}

Request remove(const Query& query) {
  auto request = std::make_unique<proto::RemoveServerRequest>();
  request->set_server_id(query.server_id);
  return request;
}

/// Without a rate it takes the limit away.
Request limit(const Query& query) {
  auto request = std::make_unique<proto::LimitRepairsRequest>();
  request->set_bytes_per_second(query.rate);
  return request;
}

/// Takes "name=NUMBER" from the query, which it shortens by that. False: it does not begin so.
bool take(std::string_view& query, std::string_view name, uint64_t& number) {
  if (!query.starts_with(name) || !query.substr(name.size()).starts_with('=')) return false;
  const std::string_view text = query.substr(name.size() + 1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || (end != text.data() + text.size() && *end != '&')) return false;
  query = text.substr(static_cast<size_t>(end - text.data()));
  if (query.starts_with('&')) query.remove_prefix(1);
  return true;
}

int http_status(Code code) {
  switch (code) {
    case Code::kOk: return 200;
    case Code::kInvalidArgument: return 400;
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
  Request (*request)(const Query&);
  bool of_server;          ///< the query begins with server=ID, and `done` is about that server
  std::string_view value;  ///< the number that the query has besides: "seconds", "rate"; empty: none
  std::string_view done;   ///< a sentence; one of a server goes on after its name
};

const Actions::Row Actions::kRows[] = {
    {"drain", Method::kDrainServer, &drain, true, "",
     "gets no new chunks, and its chunks are moved to other servers; they can be read meanwhile."},
    {"undrain", Method::kDrainServer, &undrain, true, "",
     "takes new chunks again; what was moved away stays where it is."},
    {"maintain", Method::kMaintainServer, &maintain, true, "seconds",
     "is in maintenance: until it ends, the server's loss starts no repairs but urgent ones."},
    {"end-maintenance", Method::kMaintainServer, &maintain, true, "",
     "is not in maintenance: its loss starts repairs as that of any other."},
    {"remove", Method::kRemoveServer, &remove, true, "", "is forgotten; its daemon may be stopped now."},
    {"limit-repairs", Method::kLimitRepairs, &limit, false, "rate",
     "Repairs are limited at each server, but for stripes that cannot lose another chunk."},
    {"unlimit-repairs", Method::kLimitRepairs, &limit, false, "", "Repairs are not limited any more."},
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
  const auto query = parse(row, change.query);
  if (!query) co_return line(400, query.error().message());
  const std::string server = row.of_server ? name_of(query->server_id) : "";
  const Status outcome = co_await ask_metaserver(row, *query, token);
  const uint64_t value = query->seconds + query->rate;  // one of them is 0
  tell_audit(fmt::format("token {} ({:016x}) from {}", holder->name, holder->id, change.peer),
             fmt::format("{}{}{} by the console", row.name, row.of_server ? " server " + server : "",
                         row.value.empty() ? "" : fmt::format(", {} {}", row.value, value)),
             outcome);
  if (outcome.ok())
    co_return line(200,
                   row.of_server ? fmt::format("Server {} {}", server, row.done) : std::string(row.done));
  const int status = http_status(outcome.code());
  if (status != 503) co_return line(status, outcome.message());
  co_return line(status,
                 fmt::format("the metaserver does not answer: {}; look when it is back", outcome.message()));
}

Result<Actions::Query> Actions::parse(const Row& row, std::string_view text) {
  Query query;
  if (row.of_server && !take(text, "server", query.server_id))
    return Status{Code::kInvalidArgument,
                  "which server? Ask for server=ID, where ID is server_id in /api/v1/servers"};
  uint64_t& value = row.value == "rate" ? query.rate : query.seconds;
  // 0 is what another action asks for.
  if (!row.value.empty() && (!take(text, row.value, value) || value == 0))
    return Status{Code::kInvalidArgument,
                  fmt::format("how much? Ask for {}=NUMBER ({})", row.value,
                              row.value == "rate" ? "bytes a second" : "for so long at most")};
  if (text.empty()) return query;
  return Status{Code::kInvalidArgument, fmt::format("the action {} takes nothing else", row.name)};
}

asio::awaitable<Status> Actions::ask_metaserver(const Row& row, const Query& query,
                                                const std::string& token) const {
  KINTSUGI_CO_ASSIGN(const rpc::Secret credential, rpc::parse_token(token));
  // A connection of its own, which ends with the action: it is the token's, and nobody else's request may go over it.
  rpc::Client client(runtime_, credential);
  const Request request = row.request(query);
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
