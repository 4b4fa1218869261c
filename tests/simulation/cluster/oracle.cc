#include "tests/simulation/cluster/oracle.h"

#include <algorithm>

#include <fmt/format.h>

#include "tests/simulation/runtime/sim_random.h"

namespace kintsugi::simulation {
namespace {

Status difference(std::span<const std::byte> expected, std::span<const std::byte> seen) {
  if (expected.size() != seen.size())
    return {Code::kCorrupt, fmt::format("{} bytes instead of {}", seen.size(), expected.size())};
  const auto at = std::mismatch(expected.begin(), expected.end(), seen.begin()).first - expected.begin();
  return {Code::kCorrupt, fmt::format("differs at byte {} of {}", at, expected.size())};
}

}  // namespace

std::vector<std::byte> Content::bytes() const {
  std::vector<std::byte> out(size);
  SimRandom(seed).fill(out);
  return out;
}

Oracle::Possibilities& Oracle::possibilities(const std::string& path) {
  Possibilities& possible = files_[path];
  if (possible.empty()) possible.push_back(std::nullopt);
  return possible;
}

void Oracle::put_begins(const std::string& path, Content content) {
  possibilities(path).push_back(content);
}

void Oracle::remove_begins(const std::string& path) {
  possibilities(path).push_back(std::nullopt);
}

Status Oracle::check(const std::string& path, const Result<std::vector<std::byte>>& seen) const {
  const Possibilities& possible = files_.at(path);
  if (!seen) {
    const bool may_be_missing = std::find(possible.begin(), possible.end(), std::nullopt) != possible.end();
    if (seen.error().code() == Code::kNotFound && may_be_missing) return {};
    return seen.error();
  }
  Status wrong{Code::kCorrupt, "there is a file"};
  for (const auto& content : possible) {
    if (!content) continue;
    const std::vector<std::byte> expected = content->bytes();
    if (expected == *seen) return {};
    wrong = difference(expected, *seen);
  }
  return wrong;
}

std::optional<Content> Oracle::content(const std::string& path) const {
  const auto found = files_.find(path);
  if (found == files_.end() || found->second.size() != 1) return std::nullopt;
  return found->second.front();
}

bool Oracle::certain(const std::string& path) const {
  const auto found = files_.find(path);
  return found == files_.end() || found->second.size() == 1;
}

std::vector<std::string> Oracle::paths() const {
  std::vector<std::string> out;
  for (const auto& [path, possible] : files_)
    out.push_back(path);
  return out;
}

}  // namespace kintsugi::simulation
