"""Which parts of a parsed statement are known to do nothing but read. What is not named here has no answer.

Names of sqlglot's classes. A list of what is bad could not be kept: the parser learns new constructs with every
release. Left out on purpose: what asks a model or the network (`AIGenerate`, `NetFunc`), reads files (`ReadCSV`),
counts up a sequence (`NextValueFor`), names a table by a text (`DynamicIdentifier`), sets a variable (`PropertyEQ`),
runs a script (`Transform`), and what the parser does not know (`Anonymous`), but for a few names.
"""

from collections.abc import Mapping


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


STRUCTURE = _words(
    "Add Adjacent Alias Aliases All Any AtIndex AtTimeZone Between BitString BitwiseAnd BitwiseLeftShift "
    "BitwiseNot BitwiseOr BitwiseRightShift BitwiseXor Boolean Bracket ByteString CTE CharacterSet Column "
    "ColumnDef Connect Cube DPipe DataType DataTypeParam Distance Distinct Div Dot EQ Escape Except ExtendsLeft "
    "ExtendsRight Fetch Filter From FromTimeZone GT GTE Glob Group GroupingSets Having HavingMax HexString "
    "HistoricalData ILike Identifier IgnoreNulls In IntDiv Intersect Interval IntervalSpan Introducer Is JSON "
    "JSONColumnDef JSONExtractQuote JSONKeyValue JSONPath JSONPathFilter JSONPathKey JSONPathPart "
    "JSONPathRecursive JSONPathRoot JSONPathSelector JSONPathSlice JSONPathSubscript JSONPathUnion "
    "JSONPathWildcard JSONSchema JSONValue Join Kwarg LT LTE Lambda Lateral Like Limit LimitOptions Literal Mod "
    "Mul NEQ National Neg Not Null NullSafeEQ NullSafeNEQ ObjectIdentifier Offset OnCondition OpenJSONColumnDef "
    "Operator Order Ordered OverflowTruncateBehavior Overlaps Parameter Paren Partition PartitionByExcluding "
    "Pivot PivotAlias PivotAny Placeholder PositionalColumn Prior PseudoType Pseudocolumn Qualify RawString "
    "RespectNulls Rollup Select Semicolon SessionParameter SimilarTo Slice Star Sub Subquery Table TableAlias "
    "TableColumn TableSample Tuple Union UnpivotColumns Values Var Variadic Version Where Window WindowSpec "
    "With WithTableHint WithinGroup"
)
"""What queries are made of."""

FUNCTIONS = _words(
    "Abs Acos Acosh AddMonths And AnyValue ApproxDistinct ApproxPercentileAccumulate ApproxPercentileCombine "
    "ApproxPercentileEstimate ApproxQuantile ApproxQuantiles ApproxTopK ApproxTopKAccumulate ApproxTopKCombine "
    "ApproxTopKEstimate ApproxTopSum ApproximateSimilarity ArgMax ArgMin Array ArrayAgg ArrayAll ArrayAny "
    "ArrayAppend ArrayCompact ArrayConcat ArrayConcatAgg ArrayConstructCompact ArrayContainedBy ArrayContains "
    "ArrayContainsAll ArrayDistinct ArrayExcept ArrayFilter ArrayFirst ArrayInsert ArrayIntersect ArrayLast "
    "ArrayMax ArrayMin ArrayOverlaps ArrayPosition ArrayPrepend ArrayRemove ArrayRemoveAt ArrayReverse "
    "ArraySize ArraySlice ArraySort ArraySum ArrayToString ArrayUnionAgg ArrayUniqueAgg ArraysZip Ascii Asin "
    "Asinh Atan Atan2 Atanh Avg Base64DecodeBinary Base64DecodeString Base64Encode BitLength BitmapBitPosition "
    "BitmapBucketNumber BitmapConstructAgg BitmapCount BitmapOrAgg BitwiseAndAgg BitwiseCount BitwiseOrAgg "
    "BitwiseXorAgg Booland Boolnot Boolor BoolxorAgg ByteLength Case Cast CastToStrType Cbrt Ceil Chr "
    "CityHash64 Coalesce CodePointsToBytes CodePointsToString Collate Collation Concat ConcatWs ConnectByRoot "
    "Contains Convert ConvertTimezone ConvertToCharset Corr Cos Cosh CosineDistance Cot Coth Count CountIf "
    "CovarPop CovarSamp Csc Csch CumeDist CurrentAccount CurrentAccountName CurrentAvailableRoles "
    "CurrentCatalog CurrentDatabase CurrentDate CurrentDatetime CurrentOrganizationName CurrentOrganizationUser "
    "CurrentRegion CurrentRole CurrentRoleType CurrentSchema CurrentSchemas CurrentSecondaryRoles CurrentTime "
    "CurrentTimestamp CurrentTimestampLTZ CurrentTimezone CurrentUser CurrentUserId CurrentVersion "
    "CurrentWarehouse Date DateAdd DateBin DateDiff DateFromParts DateFromUnixDate DateStrToDate DateSub "
    "DateToDateStr DateToDi DateTrunc Datetime DatetimeAdd DatetimeDiff DatetimeSub DatetimeTrunc Day "
    "DayOfMonth DayOfWeek DayOfWeekIso DayOfYear Dayname Decode DecodeCase Degrees DenseRank DiToDate "
    "DotProduct Elt Encode EndsWith EqualNull EuclideanDistance Exists Exp Explode ExplodingGenerateSeries "
    "Extract Factorial FarmFingerprint First FirstValue Flatten Float64 Floor Format FromBase FromBase32 "
    "FromBase64 FromISO8601Date FromISO8601Timestamp FromISO8601TimestampNanos FromJson GenerateDateArray "
    "GenerateSeries GenerateTimestampArray GetIgnoreCase Getbit Greatest GroupConcat Grouping GroupingId Hex "
    "HexDecodeString Hour If Initcap Inline Int64 IsArray IsAscii IsInf IsNan IsNullValue JSONArray "
    "JSONArrayAgg JSONArrayAppend JSONArrayContains JSONArrayInsert JSONBContains JSONBContainsAllTopKeys "
    "JSONBContainsAnyTopKeys JSONBContainsTopKey JSONBDeleteAtPath JSONBExists JSONBExtract JSONBExtractScalar "
    "JSONBObjectAgg JSONBPathExists JSONBool JSONExists JSONExtract JSONExtractArray JSONExtractScalar "
    "JSONFormat JSONKeys JSONKeysAtDepth JSONObject JSONObjectAgg JSONRemove JSONSet JSONStripNulls JSONTable "
    "JSONType JSONValueArray JarowinklerSimilarity JustifyDays JustifyHours JustifyInterval Kurtosis Lag Last "
    "LastDay LastValue LaxBool LaxFloat64 LaxInt64 LaxString Lead Least Left Length Levenshtein List Ln "
    "Localtime Localtimestamp Log LogicalAnd LogicalOr Lower LowerHex MD5 MD5Digest MD5NumberLower64 "
    "MD5NumberUpper64 MakeInterval ManhattanDistance Map MapCat MapContainsKey MapDelete MapFromEntries "
    "MapInsert MapKeys MapPick MapSize MatchAgainst Max Median Min Minhash MinhashCombine Minute Mode Month "
    "Monthname MonthsBetween Nanvl Negative NextDay Normalize NthValue Ntile Nullif NumberToStr Nvl2 ObjectAgg "
    "ObjectId ObjectInsert ObjectTransform OpenJSON Or Overlay Pad ParseBignumeric ParseDatetime ParseIp "
    "ParseJSON ParseNumeric ParseTime ParseUrl PercentRank PercentileCont PercentileDisc Pi Posexplode "
    "PosexplodeOuter Pow PreviousDay Quantile Quarter Radians Rand RangeBucket RangeN Rank RegexpCount "
    "RegexpExtract RegexpExtractAll RegexpFullMatch RegexpILike RegexpInstr RegexpLike RegexpReplace "
    "RegexpSplit RegexpSubstr RegrAvgx RegrAvgy RegrCount RegrIntercept RegrR2 RegrSlope RegrSxx RegrSxy "
    "RegrSyy RegrValx RegrValy Repeat Replace Reverse Right Rint Round RowNumber RtrimmedLength SHA SHA1Digest "
    "SHA2 SHA2Digest SafeAdd SafeConvertBytesToString SafeDivide SafeMultiply SafeNegate SafeSubtract Sec Sech "
    "Second Seq1 Seq2 Seq4 Seq8 SessionUser Sign Sin Sinh Skewness Soundex SoundexP123 Space Split SplitPart "
    "SplitToTable Sqrt StDistance StPoint Stack StandardHash StartsWith Stddev StddevPop StddevSamp StrPosition "
    "StrToDate StrToMap StrToTime StrToUnix String StringToArray StripNullValue Strtok StrtokSplitToTable "
    "StrtokToArray Struct StructExtract Stuff Substring SubstringIndex Sum Systimestamp Tan Tanh Time TimeAdd "
    "TimeDiff TimeFromParts TimeSlice TimeStrToDate TimeStrToTime TimeStrToUnix TimeSub TimeToStr TimeToTimeStr "
    "TimeToUnix TimeTrunc Timestamp TimestampAdd TimestampDiff TimestampFromParts TimestampLtzFromParts "
    "TimestampSub TimestampTrunc TimestampTzFromParts ToArray ToBase32 ToBase64 ToBinary ToBoolean ToChar "
    "ToCodePoints ToDays ToDecfloat ToDouble ToMap ToNumber ToVariant Translate Trim Trunc "
    "TryBase64DecodeBinary TryBase64DecodeString TryCast TryHexDecodeBinary TryHexDecodeString TryToDecfloat "
    "TsOrDiToDi TsOrDsAdd TsOrDsDiff TsOrDsToDate TsOrDsToDateStr TsOrDsToDatetime TsOrDsToTime "
    "TsOrDsToTimestamp Typeof Unhex Unicode UnixDate UnixMicros UnixMillis UnixSeconds UnixToStr UnixToTime "
    "UnixToTimeStr Unnest Upper UtcDate UtcTime UtcTimestamp Uuid Variance VariancePop Week WeekOfYear "
    "WeekStart WeightString WidthBucket Xor Year YearOfWeek YearOfWeekIso"
)
"""Functions that compute from their arguments, the time, chance, or who is asking."""

NAMES: Mapping[str, frozenset[str]] = {
    "postgres": _words(
        "age array_upper cardinality clock_timestamp format_type generate_subscripts has_table_privilege "
        "isfinite json_array_elements json_array_length json_build_array json_build_object json_each "
        "json_each_text json_object_keys json_typeof jsonb_agg jsonb_array_elements jsonb_array_elements_text "
        "jsonb_array_length jsonb_build_object jsonb_each jsonb_each_text jsonb_extract_path_text "
        "jsonb_object_keys jsonb_path_exists jsonb_path_query jsonb_pretty jsonb_set jsonb_strip_nulls "
        "jsonb_typeof make_date obj_description octet_length pg_column_size pg_get_constraintdef "
        "pg_get_indexdef pg_get_viewdef pg_relation_size pg_size_pretty pg_table_size pg_total_relation_size "
        "pg_typeof phraseto_tsquery plainto_tsquery quote_ident quote_literal quote_nullable regexp_match "
        "regexp_matches regexp_split_to_array regexp_split_to_table row_to_json setweight similarity "
        "statement_timestamp to_json to_jsonb to_tsquery to_tsvector ts_headline ts_rank websearch_to_tsquery "
        "word_similarity"
    ),
    "mysql": _words(
        "adddate addtime bin conv export_set field find_in_set from_days inet_aton inet_ntoa json_array "
        "json_arrayagg json_contains json_contains_path json_length json_overlaps json_search json_unquote "
        "json_valid makedate microsecond mid now oct ord period_add period_diff quote sec_to_time strcmp "
        "subdate subtime sysdate time_format time_to_sec timediff to_seconds unix_timestamp weekday "
        "weight_string yearweek"
    ),
    "sqlite": _words(
        "changes date datetime json json_array json_array_length json_each json_insert json_patch json_quote "
        "json_replace json_tree json_valid julianday likelihood likely octet_length printf quote strftime time "
        "timediff total unixepoch unlikely"
    ),
    "tsql": _words(
        "checksum choose datalength difference getutcdate isdate isjson isnumeric json_modify nchar parse "
        "parsename patindex quotename str string_escape string_split switchoffset sysutcdatetime "
        "todatetimeoffset try_parse user_name"
    ),
    "snowflake": _words(
        "as_char hash ilike_any ratio_to_report to_timestamp to_timestamp_ltz to_timestamp_ntz to_timestamp_tz "
        "trunc try_to_timestamp"
    ),
    "bigquery": _words("ieee_divide net_host st_geogpoint"),
    "oracle": _words("dump numtodsinterval numtoyminterval sys_context to_timestamp trunc wm_concat xmlagg"),
}
"""Functions of the databases' own that do no more, and that the parser does not know by a class."""

T_SQL_STATEMENTS = _words(
    "alter backup begin break bulk checkpoint close commit continue create dbcc deallocate declare delete deny "
    "disable drop enable end exec execute fetch go goto grant if insert kill load merge open print raiserror "
    "read readtext reconfigure restore return revert revoke rollback save send set setuser shutdown throw "
    "truncate update updatetext use waitfor while with writetext"
)
"""Words that begin a statement of T-SQL, which needs no semicolon before it: where the parser sees an alias in
`select * from t shutdown`, the server stops.
"""
