#include "repair_manager/daemon/what_if_page.h"

#include <charconv>
#include <memory>
#include <mutex>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace kintsugi::repair_manager {
namespace {

using Document = nlohmann::ordered_json;

constexpr double kBudget = 0.05;
constexpr double kLongestDelay = 7 * 86'400;

Status wrong(std::string what) {
  return {Code::kInvalidArgument, std::move(what)};
}

Result<double> delay_of(std::string_view text) {
  double seconds = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() || !(seconds >= 0) ||
      seconds > kLongestDelay)
    return wrong(fmt::format("delay: \"{}\" is no number of seconds", text));
  return seconds;
}

Status take(std::string_view part, WhatIfQuery& query) {
  const size_t equals = std::min(part.find('='), part.size());
  const std::string_view key = part.substr(0, equals);
  const std::string value(part.substr(std::min(equals + 1, part.size())));
  if (key == "server") {
    query.server = value;
  } else if (key == "rack") {
    query.rack = value;
  } else if (key == "policy") {
    KINTSUGI_ASSIGN(query.policy, erasure::Policy::parse(value));
  } else if (key == "delay") {
    KINTSUGI_ASSIGN(query.delay_s, delay_of(value));
  } else {
    return wrong(fmt::format("\"{}\" is no parameter", key));
  }
  return {};
}

Result<what_if::Forecast> forecast(const WhatIfQuery& query, const std::vector<proto::ServerState>& servers) {
  what_if::Cluster cluster;
  what_if::Loss loss{.servers = {}, .budget = kBudget};
  double stored = 0, chunks = 0;
  for (const proto::ServerState& state : servers) {
    const what_if::Server server = what_if::live_server(state);
    const bool is_lost = query.server.empty() ? server.rack == query.rack : server.name == query.server;
    if (is_lost) loss.servers.push_back(static_cast<uint32_t>(cluster.servers.size()));
    cluster.servers.push_back(server);
    stored += static_cast<double>(state.stored_bytes());
    chunks += static_cast<double>(state.chunks());
  }
  if (loss.servers.empty()) return Status(Code::kNotFound, "there is no such server or rack");
  if (chunks > 0) cluster.chunk_bytes = std::max(1.0, stored / chunks);
  cluster.policy = query.policy;
  cluster.delay_seconds = query.delay_s;
  return what_if::forecast_loss(cluster, loss);
}

Document seconds_of(std::optional<double> seconds) {
  return seconds ? Document(*seconds) : Document();
}

std::string problem(std::string_view what) {
  return Document{{"problem", what}}.dump(-1, ' ', false, Document::error_handler_t::replace) + "\n";
}

}  // namespace

Result<WhatIfQuery> WhatIfQuery::parse(std::string_view text) {
  WhatIfQuery query;
  bool has_policy = false;
  while (!text.empty()) {
    const size_t end = std::min(text.find('&'), text.size());
    KINTSUGI_TRY(take(text.substr(0, end), query));
    has_policy = has_policy || text.starts_with("policy=");
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (query.server.empty() == query.rack.empty()) return wrong("say what is lost: server, or rack");
  if (!has_policy) return wrong("policy is missing");
  return query;
}

std::string what_if_document(const WhatIfQuery& query, const std::vector<proto::ServerState>& servers) {
  const auto answer = forecast(query, servers);
  if (!answer) return problem(answer.error().message());
  const auto& all = answer->all_seconds;
  const Document document = {
      {"lost", query.server.empty() ? query.rack : query.server},
      {"chunks", answer->chunks},
      {"bytes", static_cast<uint64_t>(answer->bytes)},
      {"stripes", answer->stripes},
      {"lost_stripes", answer->lost_stripes},
      {"begins_seconds", answer->begins_seconds},
      {"half_seconds", seconds_of(answer->half_seconds)},
      {"most_seconds", seconds_of(answer->most_seconds)},
      {"all_seconds", seconds_of(all)},
      {"all_seconds_low", all ? Document(answer->earliest(*all)) : Document()},
      {"all_seconds_high", all ? Document(answer->latest(*all)) : Document()},
      {"one_failure_until_seconds", seconds_of(answer->one_failure_until())},
      {"waiting_chunks", answer->waiting_chunks},
      {"method", what_if::method_name(answer->method)},
  };
  return document.dump(-1, ' ', false, Document::error_handler_t::replace) + "\n";
}

void add_what_if_page(http::HttpServer& http, std::function<std::vector<proto::ServerState>()> servers) {
  // One forecast at a time: it takes a second of processor time.
  const auto computes = std::make_shared<std::mutex>();
  http.handle("/api/v1/what-if", [servers = std::move(servers), computes](std::string_view text) {
    const auto query = WhatIfQuery::parse(text);
    if (!query) return http::Response{.status = 400, .body = query.error().message() + "\n"};
    http::Response response{.content_type = "application/json", .body = {}};
    response.late_body = [query = *query, states = servers(), computes]() -> std::string {
      const std::unique_lock alone(*computes, std::try_to_lock);
      return alone ? what_if_document(query, states) : problem("another forecast is computed; ask again");
    };
    return response;
  });
}

}  // namespace kintsugi::repair_manager
