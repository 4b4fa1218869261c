#include "erasure/policy.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "common/base/quote.h"

namespace kintsugi::erasure {

namespace {

constexpr size_t kMaxNameBytes = 40;
constexpr uint32_t kKibibyte = 1024;

// For these the codes do what they promise, as their tests show.
constexpr uint32_t kMaxGlobalParities = 2;
constexpr uint32_t kMaxLocalGroup = 15;  // data chunks; also at most 16 groups, given kMaxChunks
constexpr uint32_t kMaxRotatedData = 16;
constexpr uint32_t kMaxRotatedParities = 4;

Result<Policy> bad(std::string_view name, std::string_view reason) {
  return Status(kintsugi::Code::kInvalidArgument,
                fmt::format("policy {}: {}", quoted(name, kMaxNameBytes), reason));
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

// The parts of a family's names.
struct Form {
  std::string_view code;
  Policy::Family family;
  std::vector<std::string_view> counts;  // what each number counts, for error messages
  std::string_view expected;
};

const std::vector<Form>& forms() {
  static const std::vector<Form> all = {
      {"rs",
       Policy::Family::kReedSolomon,
       {"data chunks", "parity chunks"},
       "expected rs-DATA-PARITY-CELL, as in rs-6-3-1024k"},
      {"replication",
       Policy::Family::kReedSolomon,
       {"copies"},
       "expected replication-COPIES-CELL, as in replication-3-1024k"},
      {"lrc",
       Policy::Family::kLocal,
       {"data chunks", "local parities", "global parities"},
       "expected lrc-DATA-LOCAL-GLOBAL-CELL, as in lrc-12-2-2-1024k"},
      {"rrs",
       Policy::Family::kRotated,
       {"data chunks", "parity chunks"},
       "expected rrs-DATA-PARITY-CELL, as in rrs-12-4-1024k"},
  };
  return all;
}

// Parameters beyond those that every code has in common: empty, or what is wrong.
std::string check_family(const Policy& policy) {
  if (policy.family == Policy::Family::kLocal) {
    if (policy.local < 2 || policy.k % policy.local != 0) {
      return fmt::format("{} data chunks cannot be cut into {} local groups; must be from 2 and divide them",
                         policy.k, policy.local);
    }
    if (policy.global() < 1 || policy.global() > kMaxGlobalParities) {
      return fmt::format("{} global parities: coefficients are known for 1 to {}", policy.global(),
                         kMaxGlobalParities);
    }
    if (policy.k / policy.local > kMaxLocalGroup)
      return fmt::format("a local group has at most {} data chunks", kMaxLocalGroup);
  }
  if (policy.family == Policy::Family::kRotated) {
    if (policy.k < 2 || policy.k > kMaxRotatedData)
      return fmt::format("a rotated code has 2 to {} data chunks", kMaxRotatedData);
    if (policy.m < 2 || policy.m > kMaxRotatedParities)
      return fmt::format("a rotated code has 2 to {} parity chunks", kMaxRotatedParities);
  }
  return {};
}

}  // namespace

Result<Policy> Policy::parse(std::string_view name) {
  if (name.empty()) return bad(name, "the name is empty; an example is rs-6-3-1024k");
  if (name.size() > kMaxNameBytes)
    return bad(name, fmt::format("the name is longer than {} bytes", kMaxNameBytes));
  const auto parts = split(name, '-');
  const auto form =
      std::find_if(forms().begin(), forms().end(), [&](const Form& f) { return f.code == parts[0]; });
  if (form == forms().end()) {
    return bad(name, fmt::format("unknown code {}; the codes are rs, replication, lrc and rrs",
                                 quoted(parts[0], kMaxNameBytes)));
  }
  if (parts.size() != form->counts.size() + 2) return bad(name, form->expected);

  std::vector<uint32_t> numbers;
  for (size_t i = 0; i < form->counts.size(); ++i) {
    const auto number = parse_number(parts[i + 1]);
    if (!number || (i == 0 && *number == 0)) {
      return bad(name, fmt::format("the number of {} is {}, but must be a number from {}", form->counts[i],
                                   quoted(parts[i + 1], kMaxNameBytes), i == 0 ? 1 : 0));
    }
    numbers.push_back(*number);
  }
  uint32_t chunks = 0;
  for (const uint32_t number : numbers) {
    if (number > kMaxChunks - chunks)
      return bad(name, fmt::format("a stripe has at most {} chunks", kMaxChunks));
    chunks += number;
  }
  Policy policy{.k = numbers[0], .m = chunks - numbers[0], .family = form->family};
  if (form->code == "replication") {
    policy.k = 1;
    policy.m = chunks - 1;
  }
  if (form->family == Family::kLocal) policy.local = numbers[1];
  const std::string wrong = check_family(policy);
  if (!wrong.empty()) return bad(name, wrong);

  const auto cell_kib = parse_cell_kib(parts.back());
  if (!cell_kib) {
    return bad(name, fmt::format("the cell size is {}, but must be a number of KiB and a k, as in 1024k",
                                 quoted(parts.back(), kMaxNameBytes)));
  }
  const uint32_t step_kib = kCellGranularityBytes * policy.rows() / kKibibyte;
  const uint32_t max_kib = policy.max_cell_bytes() / kKibibyte;
  if (*cell_kib == 0 || *cell_kib > max_kib || *cell_kib % step_kib != 0) {
    return bad(name, fmt::format("the cell size must be a multiple of {}k from {}k to {}k", step_kib,
                                 step_kib, max_kib));
  }
  policy.cell_bytes = *cell_kib * kKibibyte;
  return policy;
}

std::string Policy::name() const {
  const uint32_t cell_kib = cell_bytes / kKibibyte;
  switch (family) {
    case Family::kReedSolomon:
      if (k == 1) return fmt::format("replication-{}-{}k", m + 1, cell_kib);
      return fmt::format("rs-{}-{}-{}k", k, m, cell_kib);
    case Family::kLocal: return fmt::format("lrc-{}-{}-{}-{}k", k, local, global(), cell_kib);
    case Family::kRotated: return fmt::format("rrs-{}-{}-{}k", k, m, cell_kib);
  }
  return {};
}

}  // namespace kintsugi::erasure
