#include "repair_manager/daemon/what_if_page.h"

#include <charconv>
#include <future>
#include <memory>
#include <mutex>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace kintsugi::repair_manager {
namespace {

using Document = nlohmann::ordered_json;

constexpr double kBudget = 0.05;
constexpr double kLongestDelay = 7 * 86'400;
constexpr auto kLook = std::chrono::milliseconds(20);

Result<double> delay_of(std::string_view text) {
  double seconds = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() || !(seconds >= 0) ||
      seconds > kLongestDelay)
    return invalid(fmt::format("delay: \"{}\" is no number of seconds", text));
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
    return invalid(fmt::format("\"{}\" is no parameter", key));
  }
  return {};
}

bool is_lost(const WhatIfQuery& query, const proto::ServerState& server) {
  return query.server.empty() ? server.rack() == query.rack : server.name() == query.server;
}

Result<what_if::Forecast> forecast(const WhatIfQuery& query, const WhatIfFacts& facts) {
  what_if::Cluster cluster;
  what_if::Loss loss{.servers = {}, .budget = kBudget};
  double stored = 0, chunks = 0;
  for (const proto::ServerState& state : facts.servers) {
    if (is_lost(query, state)) loss.servers.push_back(static_cast<uint32_t>(cluster.servers.size()));
    cluster.servers.push_back(what_if::live_server(state));
    stored += static_cast<double>(state.stored_bytes());
    chunks += static_cast<double>(state.chunks());
  }
  if (loss.servers.empty()) return Status(Code::kNotFound, "there is no such server or rack");
  if (chunks > 0) cluster.chunk_bytes = std::max(1.0, stored / chunks);
  cluster.policy = query.policy;
  cluster.delay_seconds = query.delay_s;
  if (facts.stripes) cluster.stripes = what_if::live_stripes(*facts.stripes);
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
  if (query.server.empty() == query.rack.empty()) return invalid("say what is lost: server, or rack");
  if (!has_policy) return invalid("policy is missing");
  return query;
}

std::vector<uint64_t> WhatIfFacts::lost(const WhatIfQuery& query,
                                        const std::vector<proto::ServerState>& servers) {
  std::vector<uint64_t> ids;
  for (const proto::ServerState& server : servers)
    if (is_lost(query, server)) ids.push_back(server.server_id());
  return ids;
}

std::string what_if_document(const WhatIfQuery& query, const WhatIfFacts& facts) {
  const auto answer = forecast(query, facts);
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
      {"placement", facts.stripes ? "known" : "drawn"},
  };
  return document.dump(-1, ' ', false, Document::error_handler_t::replace) + "\n";
}

void add_what_if_page(http::HttpServer& http, WhatIfSource source) {
  // One forecast at a time: it takes a second of processor time.
  const auto computes = std::make_shared<std::mutex>();
  const auto page = [source = std::move(source), computes, stop = http.stopping()](std::string_view text) {
    const auto query = WhatIfQuery::parse(text);
    if (!query) return http::Response{.status = 400, .body = query.error().message() + "\n"};
    WhatIfFacts facts{.servers = source.servers(), .stripes = {}};
    const auto told = std::make_shared<std::promise<WhatIfFacts::Stripes>>();
    source.stripes(WhatIfFacts::lost(*query, facts.servers),
                   [told](WhatIfFacts::Stripes stripes) { told->set_value(std::move(stripes)); });
    http::Response response{.content_type = "application/json", .body = {}};
    response.late_body = [query = *query, facts = std::move(facts), told, computes, stop]() -> std::string {
      const std::unique_lock alone(*computes, std::try_to_lock);
      if (!alone) return problem("another forecast is computed; ask again");
      // While the server stops, the daemon's thread waits for this one, and nothing is told any more.
      std::future<WhatIfFacts::Stripes> stripes = told->get_future();
      while (stripes.wait_for(kLook) != std::future_status::ready)
        if (stop.stop_requested()) return problem("the repair manager stops");
      return what_if_document(query, {facts.servers, stripes.get()});
    };
    return response;
  };
  http.handle("/api/v1/what-if", page);
}

}  // namespace kintsugi::repair_manager
