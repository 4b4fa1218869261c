#include "metaserver/cluster/scrape_targets.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "common/runtime/tls/tls_network.h"

namespace kintsugi::metaserver {
namespace {

using Document = nlohmann::ordered_json;

Document target(const KnownDaemon& daemon, bool over_tls) {
  const std::string pages = reached(daemon.http_address, daemon.address);
  Document labels = {{"daemon", daemon.daemon}, {"instance", daemon.instance}};
  if (!daemon.rack.empty()) labels["rack"] = daemon.rack;
  const auto endpoint = runtime::Endpoint::parse(pages);
  if (over_tls && endpoint && !runtime::is_loopback(endpoint->host)) labels["__scheme__"] = "https";
  return {{"targets", {pages}}, {"labels", std::move(labels)}};
}

}  // namespace

std::string reached(const std::string& http_address, const std::string& address) {
  auto pages = runtime::Endpoint::parse(http_address);
  const auto daemon = runtime::Endpoint::parse(address);
  if (!pages || !daemon || !pages->is_wildcard()) return http_address;
  pages->host = daemon->host;
  return pages->to_string();
}

std::string ScrapeTargets::page(const std::vector<KnownDaemon>& known) {
  const TimePoint now = clock_.now();
  Document targets = Document::array();
  for (const KnownDaemon& daemon : known) {
    if (daemon.http_address.empty()) continue;
    if (daemon.forgotten_when_silent)
      remember(daemon);
    else
      targets.push_back(target(daemon, over_tls_));
  }
  std::erase_if(silent_, [&](const auto& each) { return now - each.second.last_known > kRemembered; });
  for (const auto& [instance, remembered] : silent_)
    targets.push_back(target(remembered.daemon, over_tls_));
  return targets.dump(2, ' ', false, Document::error_handler_t::replace) + "\n";
}

void ScrapeTargets::remember(const KnownDaemon& daemon) {
  if (silent_.size() >= kMostRemembered && !silent_.contains(daemon.instance)) {
    const auto oldest =
        std::ranges::min_element(silent_, {}, [](const auto& each) { return each.second.last_known; });
    silent_.erase(oldest);
  }
  silent_.insert_or_assign(daemon.instance, Remembered{daemon, clock_.now()});
}

}  // namespace kintsugi::metaserver
