#include "monitoring/sight/request_metrics.h"

#include <algorithm>
#include <memory>

namespace kintsugi::sight {
namespace {

struct Served {
  Operation operation;
  uint64_t count = 0;
  Duration total{};
};

bool is_of(const Operation& operation, std::string_view site) {
  constexpr std::string_view kPrefix = "serve.";
  return site.starts_with(kPrefix) &&
         std::ranges::find(operation.requests, site.substr(kPrefix.size())) != operation.requests.end();
}

void count_requests(const Recorder& recorder, std::vector<Served>& all) {
  for (Served& served : all) {
    served.count = 0;
    served.total = {};
  }
  for (const PathTotals& path : recorder.totals()) {
    const auto served =
        std::ranges::find_if(all, [&](const Served& each) { return is_of(each.operation, path.site->name); });
    if (served == all.end()) continue;
    served->count += path.count;
    served->total += path.total;
  }
}

}  // namespace

void add_request_metrics(metrics::Metrics& metrics, const Recorder& recorder,
                         std::vector<Operation> operations) {
  auto all = std::make_shared<std::vector<Served>>();
  for (Operation& operation : operations)
    all->push_back({.operation = std::move(operation)});
  metrics.before_reading([&recorder, all] { count_requests(recorder, *all); });
  for (size_t i = 0; i < all->size(); ++i) {
    const metrics::Labels labels{{"operation", (*all)[i].operation.name}};
    metrics.counter("kintsugi_requests_total", "Requests of users that were served.", labels,
                    [all, i] { return static_cast<double>((*all)[i].count); });
    metrics.counter("kintsugi_request_seconds_total",
                    "Time that these requests took, from their arrival to their end.", labels,
                    [all, i] { return to_seconds((*all)[i].total); });
  }
}

}  // namespace kintsugi::sight
