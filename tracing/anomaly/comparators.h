/// What ours is compared with, each by the definition that the text gives it (Mirgorodskiy 2006, section 2.4). DPM is in
/// flow/dpm.h, and Pinpoint's coverage without pruning is the number of differences that cause/coverage.h starts from.
#pragma once

#include <span>

#include "tracing/anomaly/profile.h"

namespace kintsugi::anomaly {

/// A longer string is compared by its beginning.
inline constexpr size_t kMostLetters = 4'000;

/// Magpie: the functions of each flow in the order in which they were entered, process after process; a string for each flow.
std::vector<std::vector<NameId>> request_strings(const flow::Trace& trace, const flow::Flows& flows,
                                                 CallPaths& paths);

/// Magpie: Levenshtein's distance, the least number of insertions, deletions and replacements. O(|a| |b|).
size_t edit_distance(std::span<const NameId> a, std::span<const NameId> b);

/// Dickinson: clusters in which each profile is nearer than `reach` to another one; by profile its cluster, numbered as they
/// appear. Small clusters are suspect.
std::vector<size_t> single_link_clusters(std::span<const Profile> profiles, double reach);

}  // namespace kintsugi::anomaly
