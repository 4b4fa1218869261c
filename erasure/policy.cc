#include "erasure/policy.h"

#include <charconv>
#include <optional>
#include <vector>

#include <fmt/format.h>

namespace kintsugi::erasure {

namespace {

constexpr size_t kMaxNameBytes = 40;
constexpr uint32_t kKibibyte = 1024;

// Names come from people and from the wire: what is quoted back stays short and printable.
std::string quoted(std::string_view name) {
  std::string text(name.substr(0, kMaxNameBytes));
  for (char& c : text) {
    if (c < ' ' || c > '~') c = '?';
  }
  return "\"" + text + (name.size() > kMaxNameBytes ? "...\"" : "\"");
}

Result<Policy> bad(std::string_view name, std::string_view reason) {
  return Status(Code::kInvalidArgument, fmt::format("policy {}: {}", quoted(name), reason));
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

// Plain decimal without sign or leading zeros, so that a policy has one spelling.
std::optional<uint32_t> parse_number(std::string_view text) {
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (text.size() > 1 && text[0] == '0') return std::nullopt;
  return value;
}

std::optional<uint32_t> parse_cell_kib(std::string_view text) {
  if (!text.ends_with('k')) return std::nullopt;
  text.remove_suffix(1);
  return parse_number(text);
}

}  // namespace

Result<Policy> Policy::parse(std::string_view name) {
  if (name.empty()) return bad(name, "the name is empty; an example is rs-6-3-1024k");
  if (name.size() > kMaxNameBytes)
    return bad(name, fmt::format("the name is longer than {} bytes", kMaxNameBytes));
  const auto parts = split(name, '-');
  const bool replication = parts[0] == "replication";
  if (!replication && parts[0] != "rs") {
    return bad(name, fmt::format("unknown code {}; the codes are rs and replication", quoted(parts[0])));
  }
  if (parts.size() != (replication ? 3 : 4)) {
    return bad(name, replication ? "expected replication-COPIES-CELL, as in replication-3-1024k"
                                 : "expected rs-DATA-PARITY-CELL, as in rs-6-3-1024k");
  }

  Policy policy;
  const auto first = parse_number(parts[1]);
  if (!first || *first == 0) {
    return bad(name, fmt::format("the number of {} is {}, but must be a number from 1",
                                 replication ? "copies" : "data chunks", quoted(parts[1])));
  }
  if (*first > kMaxChunks) return bad(name, fmt::format("a stripe has at most {} chunks", kMaxChunks));
  if (replication) {
    policy.k = 1;
    policy.m = *first - 1;
  } else {
    const auto parity = parse_number(parts[2]);
    if (!parity) {
      return bad(name, fmt::format("the number of parity chunks is {}, but must be a number from 0",
                                   quoted(parts[2])));
    }
    if (*parity > kMaxChunks - *first)
      return bad(name, fmt::format("a stripe has at most {} chunks", kMaxChunks));
    policy.k = *first;
    policy.m = *parity;
  }

  const auto cell_kib = parse_cell_kib(parts.back());
  if (!cell_kib) {
    return bad(name, fmt::format("the cell size is {}, but must be a number of KiB and a k, as in 1024k",
                                 quoted(parts.back())));
  }
  constexpr uint32_t kStepKib = kCellGranularityBytes / kKibibyte;
  constexpr uint32_t kMaxKib = kMaxCellBytes / kKibibyte;
  if (*cell_kib == 0 || *cell_kib > kMaxKib || *cell_kib % kStepKib != 0) {
    return bad(name, fmt::format("the cell size must be a multiple of {}k from {}k to {}k", kStepKib,
                                 kStepKib, kMaxKib));
  }
  policy.cell_bytes = *cell_kib * kKibibyte;
  return policy;
}

std::string Policy::name() const {
  const uint32_t cell_kib = cell_bytes / kKibibyte;
  if (k == 1) return fmt::format("replication-{}-{}k", m + 1, cell_kib);
  return fmt::format("rs-{}-{}-{}k", k, m, cell_kib);
}

}  // namespace kintsugi::erasure
