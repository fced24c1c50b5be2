target triple = "x86_64-unknown-linux-gnu"
define void @iron_gather_bf16(ptr noalias %args, i64 %first, i64 %end) "no-builtins" {
entry:
  %cell11 = alloca i64, align 64
  %cell23 = alloca <32 x i16>, align 64
  %cell82 = alloca <32 x i16>, align 64
  %at0 = getelementptr i64, ptr %args, i64 0
  %arg0 = load ptr, ptr %at0, align 8
  %at1 = getelementptr i64, ptr %args, i64 1
  %arg1 = load i64, ptr %at1, align 8
  %at2 = getelementptr i64, ptr %args, i64 2
  %arg2 = load ptr, ptr %at2, align 8
  %at3 = getelementptr i64, ptr %args, i64 3
  %arg3 = load ptr, ptr %at3, align 8
  %at4 = getelementptr i64, ptr %args, i64 4
  %arg4 = load i64, ptr %at4, align 8
  %at5 = getelementptr i64, ptr %args, i64 5
  %arg5 = load float, ptr %at5, align 8
  %at6 = getelementptr i64, ptr %args, i64 6
  %arg6 = load i32, ptr %at6, align 8
  %at7 = getelementptr i64, ptr %args, i64 7
  %arg7 = load i32, ptr %at7, align 8
  %at8 = getelementptr i64, ptr %args, i64 8
  %arg8 = load i32, ptr %at8, align 8
  %at9 = getelementptr i64, ptr %args, i64 9
  %extent0 = load i64, ptr %at9, align 8
  %at10 = getelementptr i64, ptr %args, i64 10
  %streams = load i64, ptr %at10, align 8
  %number_cell = alloca i64
  store i64 %first, ptr %number_cell
  %group_cell0 = alloca i64
  store i64 %first, ptr %group_cell0
  br label %group_loop
group_loop:
  %number = load i64, ptr %number_cell
  %more = icmp ult i64 %number, %end
  br i1 %more, label %group_body, label %exit
group_body:
  %group0 = load i64, ptr %group_cell0
  %v1 = trunc i64 %group0 to i32
  %v2 = sext i32 %v1 to i64
  %v3 = getelementptr i32, ptr %arg2, i64 %v2
  %v4 = load i32, ptr %v3, align 4
  %v5 = add i32 %arg6, -1
  %v6 = icmp ult i32 %v4, %v5
  %v7 = select i1 %v6, i32 %v4, i32 %v5
  %v8 = add <32 x i32> zeroinitializer, <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31>
  %v9 = icmp eq i32 %v4, 4294967295
  %v10 = sext i32 %arg7 to i64
  store i64 0, ptr %cell11
  br label %full_head12
full_head12:
  %v15 = load i64, ptr %cell11
  %v16 = add nsw i64 %v15, 31
  %v17 = icmp slt i64 %v16, %v10
  br i1 %v17, label %full13, label %tail14
full13:
  %v18 = load i64, ptr %cell11
  %v19 = trunc nsw i64 %v18 to i32
  %v20 = insertelement <32 x i32> poison, i32 %v19, i64 0
  %v21 = shufflevector <32 x i32> %v20, <32 x i32> poison, <32 x i32> zeroinitializer
  %v22 = add <32 x i32> %v21, <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31>
  br i1 %v9, label %then24, label %else25
then24:
  store <32 x i16> zeroinitializer, ptr %cell23
  br label %end26
else25:
  %v27 = zext i32 %v7 to i64
  %v28 = mul i64 %v27, %arg1
  %v29 = sext i32 %v19 to i64
  %v30 = add i64 %v28, %v29
  %v31 = getelementptr i16, ptr %arg0, i64 %v30
  %v32 = load <32 x i16>, ptr %v31, align 2
  store <32 x i16> %v32, ptr %cell23
  br label %end26
end26:
  %v33 = load <32 x i16>, ptr %cell23
  %v34 = sext i32 %v1 to i64
  %v35 = mul i64 %v34, %arg4
  %v36 = sext i32 %v19 to i64
  %v37 = add i64 %v35, %v36
  %v38 = getelementptr i16, ptr %arg3, i64 %v37
  %v39 = ptrtoint ptr %v38 to i64
  %v40 = icmp ne i64 %streams, 0
  %v42 = and i64 %v39, 63
  %v43 = icmp eq i64 %v42, 0
  %v46 = and i1 %v40, %v43
  br i1 %v46, label %past44, label %through45
past44:
  %v47 = sub i64 %streams, 1
  %v48 = trunc i64 %v47 to i32
  %v49 = bitcast <32 x i16> %v33 to <16 x i32>
  %v50 = insertelement <16 x i32> poison, i32 %v48, i64 0
  %v51 = shufflevector <16 x i32> %v50, <16 x i32> poison, <16 x i32> zeroinitializer
  %v52 = xor <16 x i32> %v49, %v51
  store <16 x i32> %v52, ptr %v38, align 64, !nontemporal !0
  br label %stored41
through45:
  %v53 = and i64 %v39, 15
  %v54 = icmp eq i64 %v53, 0
  %v57 = and i1 %v40, %v54
  br i1 %v57, label %past55, label %through56
past55:
  %v58 = sub i64 %streams, 1
  %v59 = trunc i64 %v58 to i32
  %v60 = bitcast <32 x i16> %v33 to <16 x i32>
  %v61 = insertelement <16 x i32> poison, i32 %v59, i64 0
  %v62 = shufflevector <16 x i32> %v61, <16 x i32> poison, <16 x i32> zeroinitializer
  %v63 = xor <16 x i32> %v60, %v62
  store <16 x i32> %v63, ptr %v38, align 16, !nontemporal !0
  br label %stored41
through56:
  store <32 x i16> %v33, ptr %v38, align 2
  br label %stored41
stored41:
  %v64 = add nsw i64 %v18, 32
  store i64 %v64, ptr %cell11
  br label %full_head12
tail14:
  br label %head65
head65:
  %v68 = load i64, ptr %cell11
  %v69 = insertelement <32 x i64> poison, i64 %v68, i64 0
  %v70 = shufflevector <32 x i64> %v69, <32 x i64> poison, <32 x i32> zeroinitializer
  %v71 = add <32 x i64> %v70, <i64 0, i64 1, i64 2, i64 3, i64 4, i64 5, i64 6, i64 7, i64 8, i64 9, i64 10, i64 11, i64 12, i64 13, i64 14, i64 15, i64 16, i64 17, i64 18, i64 19, i64 20, i64 21, i64 22, i64 23, i64 24, i64 25, i64 26, i64 27, i64 28, i64 29, i64 30, i64 31>
  %v72 = insertelement <32 x i64> poison, i64 %v10, i64 0
  %v73 = shufflevector <32 x i64> %v72, <32 x i64> poison, <32 x i32> zeroinitializer
  %v74 = icmp slt <32 x i64> %v71, %v73
  %v75 = bitcast <32 x i1> %v74 to i32
  %v76 = icmp ne i32 %v75, 0
  br i1 %v76, label %turn66, label %end67
turn66:
  %v77 = load i64, ptr %cell11
  %v78 = trunc nsw i64 %v77 to i32
  %v79 = insertelement <32 x i32> poison, i32 %v78, i64 0
  %v80 = shufflevector <32 x i32> %v79, <32 x i32> poison, <32 x i32> zeroinitializer
  %v81 = add <32 x i32> %v80, <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31>
  br i1 %v9, label %then83, label %else84
then83:
  store <32 x i16> zeroinitializer, ptr %cell82
  br label %end85
else84:
  %v86 = zext i32 %v7 to i64
  %v87 = mul i64 %v86, %arg1
  %v88 = sext i32 %v78 to i64
  %v89 = add i64 %v87, %v88
  %v90 = getelementptr i16, ptr %arg0, i64 %v89
  %v91 = call <32 x i16> @llvm.masked.load.v32i16.p0(ptr align 2 %v90, <32 x i1> %v74, <32 x i16> zeroinitializer)
  store <32 x i16> %v91, ptr %cell82
  br label %end85
end85:
  %v92 = load <32 x i16>, ptr %cell82
  %v93 = sext i32 %v1 to i64
  %v94 = mul i64 %v93, %arg4
  %v95 = sext i32 %v78 to i64
  %v96 = add i64 %v94, %v95
  %v97 = getelementptr i16, ptr %arg3, i64 %v96
  call void @llvm.masked.store.v32i16.p0(<32 x i16> %v92, ptr align 2 %v97, <32 x i1> %v74)
  %v98 = add nsw i64 %v77, 32
  store i64 %v98, ptr %cell11
  br label %head65
end67:
  %next_number = add i64 %number, 1
  store i64 %next_number, ptr %number_cell
  %step0 = add i64 %group0, 1
  store i64 %step0, ptr %group_cell0
  br label %group_loop, !llvm.loop !1
exit:
  %streamed = icmp ne i64 %streams, 0
  br i1 %streamed, label %fence, label %return
fence:
  call void @llvm.x86.sse.sfence()
  br label %return
return:
  ret void
}
declare <32 x i16> @llvm.masked.load.v32i16.p0(ptr, <32 x i1>, <32 x i16>)
declare void @llvm.masked.store.v32i16.p0(<32 x i16>, ptr, <32 x i1>)
declare void @llvm.x86.sse.sfence()
!0 = !{i32 1}
!1 = distinct !{!1, !2}
!2 = !{!"llvm.loop.unroll.disable"}
