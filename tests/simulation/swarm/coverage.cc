#include "tests/simulation/swarm/coverage.h"

#include <algorithm>
#include <cctype>

namespace kintsugi::simulation {
namespace {
constexpr size_t kMostOfALine = 90;  ///< what follows tells of one case only
}  // namespace

void Coverage::merge(const Coverage& other) {
  for (const auto& [name, count] : other.codes)
    codes[name] += count;
  for (const auto& [name, count] : other.acts)
    acts[name] += count;
  for (const auto& [name, count] : other.outcomes)
    outcomes[name] += count;
  for (const auto& [name, count] : other.states)
    states[name] += count;
  longest_recovery = std::max(longest_recovery, other.longest_recovery);
}

std::string state_of(std::string_view line) {
  std::string state;
  for (size_t at = 0; at < line.size();) {
    const bool begins_word = at == 0 || !std::isalnum(static_cast<unsigned char>(line[at - 1]));
    size_t end = at;
    bool has_digit = false;
    while (end < line.size() && (std::isalnum(static_cast<unsigned char>(line[end])) || line[end] == '.')) {
      has_digit |= std::isdigit(static_cast<unsigned char>(line[end])) != 0;
      ++end;
    }
    if (begins_word && has_digit) {
      state += '#';
    } else if (end > at) {
      state += line.substr(at, end - at);
    } else {
      state += line[end++];
    }
    at = end;
  }
  state.resize(std::min(state.size(), kMostOfALine));
  return state;
}

}  // namespace kintsugi::simulation
