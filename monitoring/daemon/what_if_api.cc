#include "monitoring/daemon/what_if_api.h"

#include <algorithm>
#include <cctype>
#include <future>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common/http/kept_connection.h"

namespace kintsugi::monitoring {
namespace {

constexpr auto kLook = std::chrono::milliseconds(50);

bool is_name(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
  });
}

std::string problem(const std::string& what) {
  using Document = nlohmann::ordered_json;
  return Document{{"problem", what}}.dump(-1, ' ', false, Document::error_handler_t::replace) + "\n";
}

http::Response problem_page(const std::string& what) {
  return {.content_type = "application/json", .body = problem(what)};
}

}  // namespace

/// Filled on the daemon's thread, read by the server's that writes the page.
struct WhatIfApi::Answer {
  std::promise<std::string> body;
};

WhatIfApi::WhatIfApi(const runtime::Runtime& runtime, const Monitor& monitor)
    : runtime_(runtime), monitor_(monitor), here_(this_machine()), tasks_(runtime) {}

Result<std::string> WhatIfApi::path(std::string_view query, const std::string& policy, double delay_s) {
  const size_t equals = std::min(query.find('='), query.size());
  const std::string_view key = query.substr(0, equals);
  const std::string_view name = query.substr(std::min(equals + 1, query.size()));
  if ((key != "server" && key != "rack") || !is_name(name))
    return Status(Code::kInvalidArgument, "ask for server=NAME, or rack=NAME");
  return fmt::format("/api/v1/what-if?{}={}&policy={}&delay={}", key, name, policy, delay_s);
}

http::Response WhatIfApi::ask(std::string_view query, const std::stop_token& stop) {
  const ClusterWatch& watch = monitor_.watch();
  const auto path = WhatIfApi::path(query, watch.space().policy(), watch.repairs().repair_delay_seconds());
  if (!path) return {.status = 400, .body = path.error().message() + "\n"};
  if (!watch.answered_ago()) return problem_page("the metaserver has not answered yet");
  if (asks_) return problem_page("another question is being answered; ask again");
  std::optional<runtime::Endpoint> from;
  const model::Snapshot snapshot = monitor_.snapshot();
  for (const auto& view : snapshot.processes)
    if (!from && view->last().kind() == "repair-manager" && !view->last().last())
      from = page_of(view->last(), here_);
  if (!from) return problem_page("no repair manager with a page (http_listen) reports");
  const auto answer = std::make_shared<Answer>();
  http::Response response{.content_type = "application/json", .body = {}};
  // While the server stops, the daemon's thread waits for this one, and no answer comes any more.
  response.late_body = [answer, stop] {
    std::future<std::string> body = answer->body.get_future();
    while (body.wait_for(kLook) != std::future_status::ready)
      if (stop.stop_requested()) return problem("the monitor stops");
    return body.get();
  };
  asks_ = true;
  tasks_.spawn(fetch(*from, *path, answer));
  return response;
}

asio::awaitable<void> WhatIfApi::fetch(runtime::Endpoint from, std::string path,
                                       std::shared_ptr<Answer> answer) {
  http::KeptConnection connection(runtime_, std::move(from));
  const auto body = co_await connection.get(std::move(path), runtime_.clock.now() + kLimit);
  asks_ = false;
  if (body) {
    answer->body.set_value(*body);
    co_return;
  }
  const Code code = body.error().code();
  const bool silent = code == Code::kDeadlineExceeded || code == Code::kUnavailable;
  answer->body.set_value(
      problem(fmt::format("the repair manager {}: {}", silent ? "does not answer" : "answers with an error",
                          body.error().message())));
}

void WhatIfApi::add_page(http::HttpServer& http) {
  http.handle("/api/v1/what-if",
              [this, stop = http.stopping()](std::string_view query) { return ask(query, stop); });
}

asio::awaitable<void> WhatIfApi::stop() {
  tasks_.request_stop();
  co_await tasks_.join();
}

}  // namespace kintsugi::monitoring
