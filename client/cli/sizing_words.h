/// Words in which commands about clusters that may not exist take sizes and rates.
#pragma once

#include <string>
#include <string_view>

#include "common/base/status.h"
#include "erasure/policy.h"

namespace kintsugi::cli {

/// "18T" as makers of disks write it, in powers of 1000; "16TiB" in powers of 1024. 0: it is neither.
double parse_disk_bytes(std::string_view text);

/// A number more than 0 and what follows it; a number of 0 says that there is none.
std::pair<double, std::string_view> split_number(std::string_view text);

/// "25g", "500m" are bits a second; the rate is in bytes a second. `option` is named in the error.
Status parse_link_rate(std::string_view option, const std::string& text, double& rate);

/// "5%", or "5", is a share of 0.05. kInvalidArgument: not from 0 to 100.
Status parse_percent(std::string_view option, const std::string& text, double& share);

/// The name of a policy may leave out its cell, which changes nothing here.
Result<erasure::Policy> parse_short_policy(const std::string& name);

std::string time_text(double seconds);  ///< "12.3 s", "14 min", "2.5 h"

}  // namespace kintsugi::cli
