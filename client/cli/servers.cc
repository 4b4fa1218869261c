#include "client/cli/servers.h"

#include <algorithm>
#include <charconv>

#include "client/cli/format.h"
#include "common/base/quote.h"
#include "common/proto/names.h"

namespace kintsugi::cli {
namespace {

constexpr size_t kListedServers = 20;  ///< most servers that an error message lists
constexpr size_t kQuotedBytes = 80;

/// Every server that `text` may mean. Whole numbers are numbers or ids: no name consists of digits alone.
std::vector<proto::ServerState> candidates(const std::vector<proto::ServerState>& servers,
                                           std::string_view text) {
  uint64_t number = 0;
  const char* end = text.data() + text.size();
  const bool is_number = std::from_chars(text.data(), end, number).ptr == end && number != 0;
  std::vector<proto::ServerState> found;
  for (const proto::ServerState& server : servers) {
    // Another server that claims the name is shown as "name#number".
    const bool named =
        !text.empty() && (server.name() == text || server.name().starts_with(std::string(text) + '#'));
    if (is_number ? server.number() == number || server.server_id() == number : named)
      found.push_back(server);
  }
  return found;
}

std::string listing(const std::vector<proto::ServerState>& servers) {
  std::string text;
  for (size_t i = 0; i < std::min(servers.size(), kListedServers); ++i)
    text += fmt::format("{}{} ({}, {})", i == 0 ? "" : ", ", servers[i].name(), servers[i].number(),
                        proto::liveness_name(servers[i].liveness()));
  if (servers.size() > kListedServers)
    text += fmt::format(" and {} more (see `kintsugi server list`)", servers.size() - kListedServers);
  return text;
}

}  // namespace

Result<proto::ServerState> find_server(const proto::ListServersResponse& servers, std::string_view text) {
  const std::vector<proto::ServerState> all = by_number(servers);
  std::vector<proto::ServerState> found = candidates(all, text);
  if (found.size() == 1) return std::move(found.front());
  const std::string wanted = quoted(text, kQuotedBytes);
  if (found.empty()) {
    return Status{Code::kNotFound,
                  fmt::format("there is no server {}{}", wanted,
                              all.empty() ? ", nor any other" : ": there are " + listing(all))};
  }
  return Status{Code::kConflict, fmt::format("{} servers claim the name {}: {}; say which by its number",
                                             found.size(), wanted, listing(found))};
}

std::vector<proto::ServerState> by_number(const proto::ListServersResponse& servers) {
  std::vector<proto::ServerState> sorted(servers.servers().begin(), servers.servers().end());
  std::ranges::stable_sort(sorted, {}, &proto::ServerState::number);
  return sorted;
}

size_t name_width(const std::vector<proto::ServerState>& servers) {
  size_t width = 4;
  for (const proto::ServerState& server : servers)
    width = std::max(width, server.name().size());
  return width;
}

ServerNames::ServerNames(const google::protobuf::RepeatedPtrField<proto::ServerName>& names) {
  for (const proto::ServerName& name : names)
    names_[name.server_id()] = name;
}

std::string ServerNames::name(uint64_t server_id) const {
  const auto known = names_.find(server_id);
  return known == names_.end() ? std::to_string(server_id) : known->second.name();
}

Json ServerNames::to_json(uint64_t server_id) const {
  Json json{{"server_id", std::to_string(server_id)}};
  const auto known = names_.find(server_id);
  if (known != names_.end())
    json.append({{"number", known->second.number()}, {"name", known->second.name()}});
  return json;
}

}  // namespace kintsugi::cli
