#include "tests/fuzz/mutate.h"

#include <array>
#include <cstring>

namespace kintsugi::fuzz {
namespace {

// Inputs stay this short, so that thousands of them take less than a second.
constexpr size_t kMaxInputBytes = 16 << 10;

// Numbers near which limits are got wrong.
constexpr std::array<uint64_t, 16> kNumbers = {
    0, 1, 2, 7, 31, 32, 63, 64, 127, 128, 255, 256, 65536, 0x7fffffff, 0xffffffff, 0xffffffffffffffff};

void put_number(std::string& input, std::mt19937_64& random) {
  const uint64_t number = kNumbers[random() % kNumbers.size()];
  const size_t bytes = std::min<size_t>(size_t{1} << random() % 4, input.size());
  std::memcpy(input.data() + random() % (input.size() - bytes + 1), &number, bytes);
}

void mutate_once(std::string& input, const std::string& other, std::mt19937_64& random) {
  if (input.empty()) {
    input.push_back(static_cast<char>(random()));
    return;
  }
  const size_t at = random() % input.size();
  const size_t bytes = 1 + random() % std::min<size_t>(input.size() - at, 32);
  switch (random() % 9) {
    case 0: input[at] ^= static_cast<char>(1 << random() % 8); break;
    case 1: input[at] = static_cast<char>(random()); break;
    case 2: input[at] = static_cast<char>(input[at] + (random() % 2 == 0 ? 1 : -1)); break;
    case 3: put_number(input, random); break;
    case 4:
      input.insert(at, 1, static_cast<char>(random() % 2 == 0 ? random() : input[random() % input.size()]));
      break;
    case 5: input.erase(at, bytes); break;
    case 6: input.insert(random() % (input.size() + 1), input.substr(at, bytes)); break;
    case 7: input.resize(at); break;
    case 8:
      if (!other.empty()) {
        const size_t from = random() % other.size();
        input.replace(at, bytes, other.substr(from, 1 + random() % 32));
      }
      break;
  }
}

}  // namespace

void mutate_bytes(std::string& input, const std::string& other, std::mt19937_64& random) {
  for (size_t changes = 1 + random() % 6; changes > 0; --changes)
    mutate_once(input, other, random);
  if (input.size() > kMaxInputBytes) input.resize(kMaxInputBytes);
}

std::string mutation(const Subject& subject, const std::vector<std::string>& seeds, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string input = seeds[random() % seeds.size()];
  // In its own terms, in bytes, or both.
  const bool in_own_terms = subject.mutate != nullptr && random() % 4 != 0;
  for (size_t changes = in_own_terms ? 1 + random() % 4 : 0; changes > 0; --changes)
    subject.mutate(input, random);
  if (!in_own_terms || random() % 4 == 0) mutate_bytes(input, seeds[random() % seeds.size()], random);
  return input;
}

}  // namespace kintsugi::fuzz
