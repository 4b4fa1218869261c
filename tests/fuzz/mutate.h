/// Mutations of bytes, for tests that run without a fuzzer.
#pragma once

#include <random>
#include <string>

#include "tests/fuzz/subject.h"

namespace kintsugi::fuzz {

/// A few random changes: bits, bytes, numbers at their limits, ranges that are removed, repeated or taken from `other`.
void mutate_bytes(std::string& input, const std::string& other, std::mt19937_64& random);

/// One of the subject's seeds after changes that depend on `seed` alone.
std::string mutation(const Subject& subject, const std::vector<std::string>& seeds, uint64_t seed);

}  // namespace kintsugi::fuzz
